# SPDX-License-Identifier: Apache-2.0
"""What the tests of Python models share: a Python with PyTorch that hosts the trainer, recipes, and PyTorch's own DDP."""
import atexit
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ranks"), str(HERE.parent / "support")]
import harness  # noqa: E402
import peers  # noqa: E402

NETS = HERE / "nets.py"
PYTHON = peers.PYTHON or sys.executable


def reason_against():
    """Why no Python model can be trained here, or None."""
    if not list(harness.BIN.glob("liblockstep_python*.so")):
        return f"{harness.BIN} has no liblockstep_python*.so: this Lockstep was built without Python models"
    return None if peers.PYTHON else peers.REASON


def peer_losses(**spec):
    wanted = {"args": {}, "data": "digits", "world": 1, "steps": 50, "seed": 1, "global_batch": 50, "lr": 0.1, "momentum": 0.9,
              "dtype": "float32"} | spec
    return peer_json(HERE / "peer.py", wanted)


SERVERS = {}


def peer_json(script, spec):
    """What PyTorch's or Lightning's own loop says of a training. One process of a script answers all that a test file asks."""
    if script not in SERVERS:
        clean = {name: value for name, value in os.environ.items() if not harness.LAUNCHERS.match(name)}
        SERVERS[script] = subprocess.Popen([PYTHON, script], text=True, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(end_server, SERVERS[script])
    server = SERVERS[script]
    server.stdin.write(json.dumps(spec) + "\n")
    server.stdin.flush()
    said = json.loads(server.stdout.readline() or '{"error": "it has ended"}')
    if "error" in said:
        raise AssertionError(f"{script.name} {spec}: {said['error']}")
    return said["answer"]


def end_server(server):
    server.stdin.close()
    server.wait()


class PythonModelsTest(harness.RanksTest):
    def recipe(self, model, args="", data=None, more=""):
        path = self.folder / "recipe.toml"
        data = data or f'kind = "idx"\npath = "{harness.SOURCE}/datasets/digits"\nglobal_batch = 50\n'
        path.write_text(f'[model]\nname = "{model}"\n[model.args]\n{args}\n[data]\n{data}\n'
                        '[trainer]\nmax_steps = 50\nseed = 1\naccelerator = "cpu"\nvalidate_every = 0\n'
                        '[optimizer]\nname = "sgd"\nlr = 0.1\nmomentum = 0.9\n[observe]\nlog_every = 1\n' + more)
        return path

    def start(self, *arguments, env=None, program="lockstep"):
        return super().start(*arguments, env={"LOCKSTEP_PYTHON": PYTHON} | (env or {}), program=program)

    def python(self, *arguments):
        done = subprocess.run([PYTHON, *map(str, arguments)], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout

    def step_losses(self, run):
        return [line["loss"] for line in harness.metrics(self.folder / run) if line["event"] == "step"]


def main():
    reason = reason_against()
    if reason:
        if os.environ.get("LOCKSTEP_TEST_PEERS") == "1":
            print(f"failed: {reason}, but LOCKSTEP_TEST_PEERS=1 asks for it")
            sys.exit(1)
        print(f"skipped: {reason}")
        sys.exit(harness.SKIPPED)
    harness.main()
