# SPDX-License-Identifier: Apache-2.0
"""The build against the PyTorch that is there, and the tests labelled gpu. While the compiler works, torch.compile fills its cache."""
import os
import threading
import xml.etree.ElementTree

import part_speed
from page import Part, Row
from runs import BUILD, PRESET, ROOT, Failure, last_words

# Those of the tests may not be there: then there are none of that kind in this tree.
PROGRAMS, TESTS = ("lockstep", "lockstep-train"), ("lockstep_gpu_test",)
LIBRARIES = {"liblockstep_cuda.so": "CUDA", "liblockstep_hip.so": "ROCm"}


class Warmup:
    """Compiles the peers' kernels into torch.compile's cache, one after the other, until stopped: what is timed later is not that."""

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


def build(check):
    env = {name: os.environ.get(name, otherwise) for name, otherwise in (
        ("LOCKSTEP_TORCH", check.results.facts["torch_folder"]), ("LOCKSTEP_CACHE", str(check.work / "cache")),
        ("LOCKSTEP_JOBS", ""))}
    known = check.command([ROOT / "tools/build", PRESET, "help"], "configure", env)
    targets = [*PROGRAMS, *(name for name in TESTS if f"{name}: " in known)]
    warmup = Warmup(check)
    before = check.left()
    try:
        check.command([ROOT / "tools/build", PRESET, *targets], "build", env)
    finally:
        warmup.stop()
    check.results.were_compiled()
    built = [LIBRARIES[path.name] for path in sorted((BUILD / "bin").glob("liblockstep_*.so")) if path.name in LIBRARIES]
    check.results.found("build", f"{' '.join(targets)} in {before - check.left():.0f} s; library for: {', '.join(built) or 'no GPU'}",
                        bool(built) or None, targets=targets)


def words_of(case):
    """What a test of GoogleTest's says of its failure, or of why it skipped."""
    lines = (case.findtext("system-out") or "").splitlines()
    for at, line in enumerate(lines):
        if line.endswith((": Skipped", ": Failure")):
            return " / ".join(each.strip() for each in lines[at + 1:at + (2 if line.endswith("Skipped") else 4)])
    return last_words("\n".join(lines))


def told(cases):
    """"A, B: why", the tests of one reason together."""
    reasons = {}
    for case in cases:
        reasons.setdefault(words_of(case), []).append(case.get("name").removeprefix("gpu/"))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def tests(check):
    if not any((BUILD / "bin" / name).exists() for name in TESTS):
        check.results.not_run("tests", "this tree has no tests labelled gpu")
        return
    report = check.work / "ctest.xml"
    report.unlink(missing_ok=True)
    try:
        check.command(["ctest", "--test-dir", BUILD, "--label-regex", "^gpu$", "--output-on-failure", "--timeout", "120",
                       "--output-junit", report], "ctest")
    except Failure:
        if not report.exists():
            raise
    tell(check, xml.etree.ElementTree.parse(report).getroot().findall("testcase"))


def tell(check, cases):
    passed, failed, skipped = ([case for case in cases if case.get("status") in states]
                               for states in (("run",), ("fail",), ("notrun", "disabled")))
    if not passed and not failed:
        check.results.not_run("tests", told(skipped) or "ctest knows no test labelled gpu in this build")
        return
    text = f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped"
    text += "".join(f"; {state}: {told(those)}" for state, those in (("failed", failed), ("skipped", skipped)) if those)
    check.results.found("tests", text, not failed, **{name: [case.get("name") for case in those] for name, those in (
        ("passed", passed), ("failed", failed), ("skipped", skipped))})


PARTS = [
    Part("build", "Build", build, [Row("build", "built against the PyTorch that is there", "the programs and the GPU's library")], 540),
    Part("tests", "Tests labelled gpu", tests, [Row("tests", "`ctest -L gpu`", "none fails")], 120),
]
