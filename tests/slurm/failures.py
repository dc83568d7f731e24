# SPDX-License-Identifier: Apache-2.0
"""Ways in which a job ends badly, and what `ls`, `follow` and `report` are to say of each. FAILURES share a bed and run at the
same time; those of DISTURBING do something to a node or to the queue, and have the bed for themselves."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers  # noqa: E402

LATER = "exec sleep 600"
BEGUN = "begun"  # What a job says once somebody may disturb it.
MPI_ABORT = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.write(2, b"the mesh is wrong\\n")
    mpi.MPI_Abort(ctypes.c_void_p(ctypes.addressof(ctypes.c_byte.in_dll(mpi, "ompi_mpi_comm_world"))), 6)
time.sleep(600)
"""
MPI_KILLED = """
import os, signal, time
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""
TORCH_CHILD = """
import os, sys, time
if os.environ["RANK"] == "1":
    sys.exit("the child says why\\n" + "and more\\n" * 15)
time.sleep(600)
"""
RECIPE = '[model]\nname = "mlp"\n[data]\nkind = "synthetic"\nsamples = 8\n[cluster]\nnodes = 1\n'


@dataclasses.dataclass(frozen=True)
class Failure:
    name: str
    command: list  # The program, or a recipe.
    code: int
    says: str  # A regular expression of the verdict, after the rank that it names.
    last: str = ""  # Stands among the last lines.
    state: str = "failed"
    rank: int | None = 0  # Who is to blame; None: nobody.
    job: list = dataclasses.field(default_factory=list)  # More words for `submit`.
    nodes: int = 1
    per_node: int = 1
    files: dict = dataclasses.field(default_factory=dict)  # What lies in the working folder, by name; one with #! can be started.
    variables: dict = dataclasses.field(default_factory=dict)
    scancel: bool = False  # It is cancelled: once it has begun or, if it must wait, at once.
    disturb: tuple = ()  # A command that is run once it has begun; JOB and NODE stand for its number and its first node.
    launched: tuple = ()  # The launcher, its rank and the code that `report` names beside.

    @property
    def words(self):
        recipe = self.command[0].endswith(".toml")
        size = ["--nodes", self.nodes, "--tasks-per-node", self.per_node, *self.job]
        return [*self.command, *size] if recipe else [*size, "--", *self.command]


def shell(name, script, *more, **rest):
    return Failure(name, ["sh", "-c", script], *more, **rest)


def python(name, script, *more, **rest):
    return Failure(name, [sys.executable, f"{name}.py"], *more, files={f"{name}.py": script}, **rest)


def mpirun(name, script, code, *more, **rest):
    """Open MPI on one node, which starts its ranks itself."""
    launcher = ["mpirun", "--mca", "plm", "isolated", "--mca", "ras", "^slurm", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    return Failure(name, [*launcher, sys.executable, f"{name}.py"], code, *more, files={f"{name}.py": script}, **rest)


def torchrun():
    command = [peers.PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=2", "child.py"]
    return Failure("torchrun", command, 1, "with code 1; torchrun there says that its rank 1 failed first, with code 1", "the child says why",
                   files={"child.py": TORCH_CHILD}, launched=("torchrun", 1, 1))


FAILURES = [
    shell("code-1", "echo why >&2; exit 1", 1, "with code 1", "why"),
    shell("code-255", "exit 255", 255, "with code 255"),
    Failure("unknown-option", ["ls", "--no-such-option"], 2, "with code 2", "--no-such-option"),
    shell("killed", "echo last words >&2; kill -9 $$", 137, r"by SIGKILL \(137; often memory\)", "last words"),
    shell("segmentation", "kill -SEGV $$", 139, r"by SIGSEGV \(139\)"),
    shell("assertion", "kill -ABRT $$", 134, r"by SIGABRT \(134\)"),
    shell("bus", "kill -BUS $$", 135, r"by SIGBUS \(135; often a full /dev/shm or disk\)"),
    shell("passed-on", "sh -c 'kill -9 $$'; exit $?", 137, "by SIGKILL"),
    python("exception", "raise ValueError('3 columns, want 4')", 1, "with code 1", "ValueError: 3 columns, want 4"),
    python("typo", "def train(:\n", 1, "with code 1", "SyntaxError"),
    python("no-module", "import no_such_module", 1, "with code 1", "No module named 'no_such_module'"),
    python("import", "from os import no_such_name", 1, "with code 1", "ImportError: cannot import name 'no_such_name'"),
    python("memory-limit", "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 28, 1 << 28)); b'x' * (1 << 30)", 1, "with code 1", "MemoryError"),
    python("full-disk", "with open('/dev/full', 'w') as f: f.write('x')", 1, "with code 1", "No space left on device"),
    python("stdout-only", "print('told on standard output'); raise SystemExit(3)", 3, "with code 3", "told on standard output"),
    Failure("no-program", ["/no/such/program"], 4, "It failed, with code 4", "'/no/such/program' was not found, or does not start", rank=None, nodes=2),
    Failure("not-executable", ["./data.txt"], 4, "with code 4", "./data.txt", files={"data.txt": "1 2 3\n"}),
    Failure("no-environment-module", ["true"], 127, "It failed, with code 127", "module: command not found", rank=None,
            job=["--cluster", "site.toml"], files={"site.toml": '[modules]\nload = ["no-such-module"]\n'}),
    Failure("setup-line", ["true"], 4, "It failed, with code 4", "/no/such/activate", rank=None, job=["--setup", "source /no/such/activate"]),
    Failure("image", ["true"], 4, "It failed, with code 4", "FATAL: image is not a SIF file", rank=None, job=["--container", "wrong.sif"],
            files={"wrong.sif": "", "bin/apptainer": "#!/bin/sh\necho 'FATAL: image is not a SIF file' >&2\nexit 255\n"}),
    shell("one-of-four", f"if [ $RANK = 3 ]; then sleep 1; echo it was me >&2; kill -9 $$; fi; {LATER}", 137,
          r"by SIGKILL \(137; often memory\), .* before the others", "it was me", rank=3, nodes=2, per_node=2),
    shell("one-alone", "[ $RANK = 0 ] || { sleep 1; exit 6; }", 6, "with code 6; the other ranks ended well", rank=1, per_node=2),
    shell("peers-notice", "if [ $RANK = 2 ]; then echo no such file >&2; touch gone; exit 5; fi; trap 'exit 7' TERM; until [ -e gone ]; do sleep 0.05; done; exit 7", 5, "with code 5", "no such file",
          rank=2, nodes=2, per_node=2),
    shell("stops-on-request", "exit 75", 75, ".", state="stopped", rank=None, job=["--chain", "1"]),
    shell("cancelled", f"echo {BEGUN}; {LATER}", 143, "It was cancelled", BEGUN, state="cancelled", rank=None, nodes=2, scancel=True),
    shell("cancelled-waiting", "true", 143, "It was cancelled", state="cancelled", rank=None, job=["--sbatch=--begin=now+1hour"], scancel=True),
    shell("time-limit", LATER, 143, "Its time was up: Slurm ended it at its limit", state="timeout", rank=None, nodes=2, job=["--time", "00:01:00"]),
    Failure("recipe", ["r.toml"], 5, "with code 5", "no data here", rank=None, per_node=2,
            files={"r.toml": RECIPE, "lockstep-train": "#!/bin/sh\n[ \"$1\" = --version ] || { echo no data here >&2; exit 5; }\n"},
            variables={"LOCKSTEP_TRAINER": "FOLDER/lockstep-train"}),
]

LOW = ["--partition", "low", "--sbatch=--exclusive"]
DISTURBING = [
    shell("node-lost", f"echo {BEGUN}; {LATER}", 7, r"A node was lost \(NODE\)", state="node lost", rank=None,
          job=["--sbatch=--nodelist=n3", "--requeue", "no"], disturb=("scontrol", "update", "nodename=NODE", "state=down", "reason=test")),
    shell("node-lost-and-requeued", f'[ "$SLURM_RESTART_COUNT" ] && exit 5; echo {BEGUN}; {LATER}', 5, "with code 5",
          job=["--sbatch=--nodelist=n3"], disturb=("scontrol", "update", "nodename=NODE", "state=down", "reason=test")),
    shell("requeued", f'[ "$SLURM_RESTART_COUNT" ] && exit 5; echo {BEGUN}; {LATER}', 5, "with code 5", disturb=("scontrol", "requeue", "JOB")),
    shell("preempted", f"echo {BEGUN}; {LATER}", 143, "Slurm preempted it", BEGUN, state="preempted", rank=None, nodes=4, job=[*LOW],
          disturb=("srun", "-Q", "-N4", "true")),
    shell("preempted-and-requeued", f'[ "$SLURM_RESTART_COUNT" ] && exit 5; echo {BEGUN}; {LATER}', 5, "with code 5", nodes=1,
          job=["--partition", "lowest", "--sbatch=--exclusive"], disturb=("srun", "-Q", "-N4", "true")),
]


def possible():
    """All that this machine has the programs for."""
    rows = list(FAILURES)
    if shutil.which("mpirun") and subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libmpi.so.40')"], check=False,
                                                 capture_output=True).returncode == 0:
        # The rank's own message about the abort is sometimes lost on its way to mpirun.
        rows.append(mpirun("mpi-abort", MPI_ABORT, 6, "with code 6", "the mesh is wrong"))
        rows.append(mpirun("mpi-killed", MPI_KILLED, 137, r"by SIGKILL \(137; often memory\); mpirun there says that its rank 1 failed first, "
                           "by SIGKILL", launched=("mpirun", 1, 137)))
    if peers.PYTHON:
        rows.append(torchrun())
    return rows
