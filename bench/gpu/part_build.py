# SPDX-License-Identifier: Apache-2.0
"""Builds against the installed PyTorch, and runs the tests labelled gpu. Meanwhile torch.compile fills its cache."""
import dataclasses
import os
import re
import threading

import part_speed
from page import Part, Row
from runs import BUILD, PRESET, ROOT, Failure, NotHere, last_words

# A tree may have no tests of this kind. Their programs are then missing.
PROGRAMS, TESTS = ("lockstep", "lockstep-train"), ("lockstep_gpu_test",)
LIBRARIES = {"liblockstep_cuda.so": "CUDA", "liblockstep_hip.so": "ROCm"}


class Warmup:
    """Compiles the peers' kernels into torch.compile's cache, one after the other, until stopped. Later timings then exclude compiling."""

    def __init__(self, check):
        self.check = check
        self.process = None
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for script, *arguments in part_speed.compiled_peers(self.check):
            if self.is_over:
                return
            self.process = self.check.start(self.check.peer_command(script, *arguments, "--repeats", "0", "--warm", "1"), "warm-up")
            self.process.wait()

    def stop(self):
        self.is_over = True
        while self.thread.is_alive():
            if self.process:
                self.check.stop(self.process)
            self.thread.join(0.1)


def compiled(check, targets, env):
    """Builds the targets, and does so without the library for GPUs if that fails. Returns the first error, or nothing."""
    command = [ROOT / "tools/build", PRESET, *targets]
    try:
        check.command(command, "build", env)
        return None
    except NotHere:
        raise
    except Failure as error:
        for name in LIBRARIES:  # One of an earlier build does not fit to the programs.
            (BUILD / "bin" / name).unlink(missing_ok=True)
        try:
            check.command(["cmake", "-DLOCKSTEP_GPU=off", BUILD], "configure", env)
            check.command(command, "build", env)
        except Failure:
            raise error from None
        return error


def build(check):
    env = {name: os.environ.get(name, otherwise) for name, otherwise in (
        ("LOCKSTEP_TORCH", check.results.facts["torch_folder"]), ("LOCKSTEP_CACHE", str(check.work / "cache")),
        # A virtual machine with several GPUs may start with little memory and get more while it is used.
        ("LOCKSTEP_JOBS", check.pick(str(check.results.facts["cores"]), "")))}
    # An earlier call may have left the library for GPUs out.
    known = check.command(["cmake", "-DLOCKSTEP_GPU=auto", BUILD], "configure", env) if (BUILD / "CMakeCache.txt").exists() else ""
    known += check.command([ROOT / "tools/build", PRESET, "help"], "configure", env)
    targets = [*PROGRAMS, *(name for name in TESTS if f"{name}: " in known)]
    warmup = Warmup(check)
    before = check.left()
    try:
        error = compiled(check, targets, env)
    finally:
        warmup.stop()
    check.results.were_compiled()
    built = [LIBRARIES[path.name] for path in sorted((BUILD / "bin").glob("liblockstep_*.so")) if path.name in LIBRARIES]
    said = dict.fromkeys(line.removeprefix("-- ") for line in known.splitlines()
                         if re.match(r"-- (Building without GPUs|NASM was not found)", line))
    text = f"{' '.join(targets)} in {before - check.left():.0f} s; library for: {', '.join(built) or 'no GPU'}"
    wrong = [f"failed: {error}; without the library for GPUs"] if error else []
    check.results.found("build", "; ".join([*wrong, text, *said]), not error and (bool(built) or check.pick(False, None)), targets=targets)


@dataclasses.dataclass
class Case:
    """A test by the output of GoogleTest. `state` is OK, FAILED, SKIPPED, or empty if the process ended during the test."""
    name: str
    state: str = ""
    lines: list = dataclasses.field(default_factory=list)

    def words(self):
        """Returns the test's own message on its failure, or on why it skipped."""
        for at, line in enumerate(self.lines):
            if line.endswith((": Skipped", ": Failure")):
                return " / ".join(each.strip() for each in self.lines[at + 1:at + (2 if line.endswith("Skipped") else 4)])
        return last_words("\n".join(self.lines))


def cases_of(text):
    """Returns the tests in the output of a GoogleTest program. If the program was cut off, the tests that ran before count."""
    cases = []
    for line in text.splitlines():
        told = re.match(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] ([\w./]+)", line)
        if told and told[1] == "RUN":
            cases.append(Case(told[2]))
        elif told and cases and cases[-1].name == told[2] and not cases[-1].state:
            cases[-1].state = told[1]
        elif cases and not cases[-1].state:
            cases[-1].lines.append(line)
    return cases


def told(cases):
    """Returns "A, B: why", with the tests of one reason together."""
    reasons = {}
    for case in cases:
        reasons.setdefault(case.words(), []).append(case.name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def tests(check):
    """Runs all tests in one process, because every process needs seconds to load LibTorch's libraries for CUDA."""
    program, report = BUILD / "bin" / TESTS[0], check.work / "logs/gpu-tests.log"
    if not program.exists():
        check.results.not_run("tests", "this tree has no tests labelled gpu")
        return
    report.unlink(missing_ok=True)
    problem = None
    try:
        # Some tests are deterministic, and LibTorch reads this variable only once.
        check.command(["sh", "-c", 'exec "$0" >"$1" 2>&1', program, report], "tests",
                      {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "LOCKSTEP_BIN": str(BUILD / "bin")})
    except Failure as error:
        problem = error
    cases = cases_of(report.read_text()) if report.exists() else []
    if not cases and problem:
        raise problem
    tell(check, cases, problem)


def tell(check, cases, problem=None):
    passed, failed, skipped = ([case for case in cases if case.state == state] for state in ("OK", "FAILED", "SKIPPED"))
    within = [case for case in cases if not case.state]
    if isinstance(problem, NotHere):
        ended = [f"cut off in {within[-1].name}: {problem}"] if within else [f"cut off: {problem}"]
    else:
        failed += within
        ended = []
    if not passed and not failed:
        check.results.not_run("tests", "; ".join([*filter(None, [told(skipped)]), *ended]) or "this program has no tests")
        return
    text = f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped"
    text += "".join(f"; {state}: {told(those)}" for state, those in (("failed", failed), ("skipped", skipped)) if those)
    check.results.found("tests", "; ".join([text, *ended]), not failed and not ended, **{
        name: [case.name for case in those] for name, those in (("passed", passed), ("failed", failed), ("skipped", skipped))})


PARTS = [
    Part("build", "Build", build, [Row("build", "built against the PyTorch that is there", "the programs and the GPU's library")], 540),
    Part("tests", "Tests labelled gpu", tests, [Row("tests", "`ctest -L gpu`, in one process", "none fails")], 240),
]
