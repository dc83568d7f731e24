#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts that add up from run to run: tools/soak PART --minutes N.

Each run makes new trials of one part until its time is up, and appends one line to docs/measured/soak.jsonl:
part, seeds, trials, bad, commit, date. Parts:
  drawn   recipes drawn at random, held against what the docs promise; the seeds follow those counted before
  stress  the tests labelled ranks and slurm, in random order, in two clones at once, with every core kept busy beside them
  kills   writers of snapshots, killed at random moments
  corruptions  snapshots that are damaged at random places
  strangers  connections to the store of those who know no secret, while a rank uses it
  held  trainings whose state is held in their parent's memory, killed at random moments
  moments  trainings on the Slurm test bed, stopped at random moments in all the ways that a job can be
  resumes  trainings with all features on, killed after a step and resumed, held against one that was left alone
  watch  trainings on four ranks, of which a random one has one of eight faults: the right one and its phase are named
  pauses  steps of healthy trainings whose ranks stand still for less than the watch's limit: no alarm
  python_kills  runs of python/lockstep.py that are killed at random moments, each held against one that was left alone
  python_watch  Python scripts on two ranks, one of which stands still in its loader, a collective or a lock: named, with its line
  heal  local ranks that are killed at random moments and replaced, each run held against one that was left alone
  heal_slurm  the same on the Slurm test bed, on two nodes
  guide_scripts  the scripts of examples/11_guide_scripts on the Slurm test bed, stopped at random moments
`tools/soak counts` shows the sums.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNTS = ROOT / "docs/measured/soak.jsonl"
WORK = ROOT / "build/soak"
BUILD = ROOT / "build/release"
RECIPES_AT_ONCE = 8


def counted(part):
    """The lines of a part, oldest first."""
    lines = COUNTS.read_text().splitlines() if COUNTS.exists() else []
    return [line for line in map(json.loads, lines) if line["part"] == part]


def said(*command):
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()


def commit():
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs/measured"], cwd=ROOT, check=False).returncode
    return said("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def keep(part, seeds, trials, bad):
    COUNTS.parent.mkdir(parents=True, exist_ok=True)
    line = {"part": part, "seeds": seeds, "trials": trials, "bad": bad, "commit": commit(),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}
    with COUNTS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"soak: {part}: {trials} trials, {bad} bad; {sum(each['trials'] for each in counted(part))} in all")


def logged(name, text):
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / f"{name}.log").open("a") as file:
        file.write(text)


def soak_drawn(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("drawn")), default=0)
    after, trials, bad = first, 0, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_DRAWN_SEEDS": f"{after}:{RECIPES_AT_ONCE}", "LOCKSTEP_BIN": str(BUILD / "bin")}
        done = subprocess.run([sys.executable, ROOT / "tests/ranks/drawn_recipes_test.py"], env=env, text=True, cwd=ROOT,
                              capture_output=True, check=False)
        logged("drawn", done.stdout + done.stderr)
        faults = len(re.findall(r"^(?:FAIL|ERROR): ", done.stderr, re.M))
        if done.returncode != 0 and not faults:
            sys.exit(f"error: the test of drawn recipes did not run: {done.stderr[-500:]}")
        after, trials, bad = after + RECIPES_AT_ONCE, trials + RECIPES_AT_ONCE, bad + faults
        print(f"soak: drawn: seeds {first} to {after - 1}, {bad} bad", file=sys.stderr)
    keep("drawn", f"{first}:{after}", trials, bad)


def soak_damage(part, test, at_once):
    """Trials of one C++ test that takes its seeds from LOCKSTEP_DAMAGE_SEEDS."""
    def soak(deadline):
        first = max((int(line["seeds"].partition(":")[2]) for line in counted(part)), default=0)
        after, bad = first, 0
        while time.monotonic() < deadline:
            env = os.environ | {"LOCKSTEP_DAMAGE_SEEDS": f"{after}:{at_once}"}
            done = subprocess.run([BUILD / "bin/lockstep_format_test", f"--gtest_filter={test}", "--gtest_brief=1"], env=env,
                                  text=True, cwd=ROOT, capture_output=True, check=False)
            logged(part, done.stdout + done.stderr)
            faults = len(set(re.findall(r"seed (\d+)", done.stdout)))
            if done.returncode != 0 and not faults:
                sys.exit(f"error: {test} did not run: {done.stdout[-500:]}")
            after, bad = after + at_once, bad + faults
        keep(part, f"{first}:{after}", after - first, bad)
    return soak


def soak_whole(part, program, test, trials):
    """A C++ test that makes so many trials under LOCKSTEP_SOAK=1, random ones each time. A failure counts as one."""
    def soak(deadline):
        runs = bad = 0
        while time.monotonic() < deadline:
            done = subprocess.run([BUILD / "bin" / program, f"--gtest_filter={test}", "--gtest_brief=1"], text=True, cwd=ROOT,
                                  env=os.environ | {"LOCKSTEP_SOAK": "1"}, capture_output=True, check=False)
            logged(part, done.stdout + done.stderr)
            if done.returncode not in (0, 1):
                sys.exit(f"error: {test} did not run: {done.stdout[-500:]}")
            runs, bad = runs + 1, bad + done.returncode
        keep(part, "", runs * trials, bad)
    return soak


def soak_python_kills(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("python_kills")), default=0)
    after, trials, bad = first, 0, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_PYTHON_SEED": str(after), "LOCKSTEP_PYTHON_KILLS": "40", "LOCKSTEP_BIN": str(BUILD / "bin"),
                            "LOCKSTEP_TEST_PEERS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, ROOT / "tests/python/test_runs.py", "Runs.test_killed_at_random_moments"], env=env, text=True,
                              cwd=ROOT, capture_output=True, check=False)
        logged("python_kills", done.stdout + done.stderr)
        killed = sum(map(int, re.findall(r"^killed (\d+) times$", done.stdout, re.M)))
        if not killed:
            sys.exit(f"error: the test of killed Python runs did not run: {(done.stdout + done.stderr)[-500:]}")
        after, trials, bad = after + 1, trials + killed, bad + (done.returncode != 0)
    keep("python_kills", f"{first}:{after}", trials, bad)


def soak_moments(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("moments")), default=0)
    after, bad = first, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_MOMENT_SEEDS": f"{after}:5"}
        done = subprocess.run([sys.executable, ROOT / "tests/slurm/test_moments.py", BUILD / "bin/lockstep"], env=env, text=True, cwd=ROOT,
                              capture_output=True, check=False)
        logged("moments", done.stdout + done.stderr)
        faults = len(set(re.findall(r"^(?:FAIL|ERROR): .*seed (\d+)", done.stderr, re.M)))
        if done.returncode != 0 and not faults:
            sys.exit(f"error: the test of random moments did not run: {(done.stdout + done.stderr)[-500:]}")
        after, bad = after + 5, bad + faults
        print(f"soak: moments: seeds {first} to {after - 1}, {bad} bad", file=sys.stderr)
    keep("moments", f"{first}:{after}", after - first, bad)


def soak_resumes(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("resumes")), default=0)
    after, trials, bad = first, 0, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_RESUME_SEED": str(after), "LOCKSTEP_RESUME_RANKS": "2,3,4", "LOCKSTEP_BIN": str(BUILD / "bin"),
                            "LOCKSTEP_RESUME_STEPS": ",".join(map(str, range(1, 11)))}
        done = subprocess.run([sys.executable, ROOT / "tests/ranks/everything_on_test.py"], env=env, text=True, cwd=ROOT, capture_output=True,
                              check=False)
        logged("resumes", done.stdout + done.stderr)
        resumed = len(re.findall(r"^[^ ]+: resumed at ", done.stdout, re.M))
        if not resumed:
            sys.exit(f"error: the test of resumes did not run: {(done.stdout + done.stderr)[-500:]}")
        after, trials, bad = after + 1, trials + resumed, bad + len(re.findall(r"^(?:FAIL|ERROR): ", done.stderr, re.M))
        print(f"soak: resumes: {trials}, {bad} bad", file=sys.stderr)
    keep("resumes", f"{first}:{after}", trials, bad)


FROZEN_AT_ONCE = 10


def frozen_env(**more):
    """The variables of tests/python/test_frozen.py."""
    return os.environ | {"LOCKSTEP_BIN": os.environ.get("LOCKSTEP_BIN", str(BUILD / "bin")), "LOCKSTEP_TEST_PEERS": "1",
                         "PYTHONDONTWRITEBYTECODE": "1"} | more


def soak_python_watch(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("python_watch")), default=0)
    after, bad = first, 0
    while time.monotonic() < deadline:
        env = frozen_env(LOCKSTEP_FROZEN_SEEDS=f"{after}:{FROZEN_AT_ONCE}")
        done = subprocess.run([sys.executable, ROOT / "tests/python/test_frozen.py", "Frozen.test_drawn"], env=env, text=True, cwd=ROOT,
                              capture_output=True, check=False)
        logged("python_watch", done.stdout + done.stderr)
        if "seeds " not in done.stdout:
            sys.exit(f"error: the test of frozen scripts did not run: {(done.stdout + done.stderr)[-500:]}")
        after, bad = after + FROZEN_AT_ONCE, bad + (done.returncode != 0)  # It ends at the first that is not named.
        print(f"soak: python_watch: seeds {first} to {after - 1}, {bad} bad", file=sys.stderr)
    keep("python_watch", f"{first}:{after}", after - first, bad)


def soak_python_healthy(deadline):
    env = frozen_env(LOCKSTEP_HEALTHY_S=str(deadline - time.monotonic()))
    tests = ("Frozen.test_a_healthy_run_has_no_alarm", "Frozen.test_a_healthy_run_without_lines_has_no_alarm")
    running = [subprocess.Popen([sys.executable, ROOT / "tests/python/test_frozen.py", test], env=env, text=True, cwd=ROOT,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for test in tests]
    said_of_each = [each.communicate()[0] for each in running]
    logged("python_healthy", "".join(said_of_each))
    steps = [int(re.search(r"^.*healthy, asked .* (\d+) steps$", text, re.M)[1]) if "healthy, asked" in text else 0 for text in said_of_each]
    bad = sum(each.returncode != 0 for each in running)
    if not any(steps) and not bad:
        sys.exit(f"error: the test of healthy scripts did not run: {said_of_each[0][-500:]}")
    print(f"soak: python_healthy: {steps} steps, {bad} bad", file=sys.stderr)
    keep("python_healthy", "", sum(steps), bad)


SCRIPTS_AT_ONCE = 12  # Each start of the test begins with four runs that are left alone.


LOCAL_HEALINGS = ("test_two_ranks", "test_three_ranks", "test_two_at_once", "test_accumulated_batches_and_a_snapshot_of_each_step",
                  "test_buffers_and_random_choices_of_the_dead_rank_come_back", "test_a_rank_dies_amid_a_large_message",
                  "test_a_rank_dies_while_the_other_is_stopped")


def soak_healings(part, script, tests, kills):
    def soak(deadline):
        first = max((int(line["seeds"].partition(":")[2]) for line in counted(part)), default=0)
        after, trials, bad = first, 0, 0
        while time.monotonic() < deadline:
            env = os.environ | {"LOCKSTEP_HEAL_SEED": str(after + 100), "LOCKSTEP_HEAL_KILLS": str(kills), "LOCKSTEP_BIN": str(BUILD / "bin")}
            done = subprocess.run([sys.executable, ROOT / script, *(f"Heal.{test}" for test in tests)], env=env, text=True, cwd=ROOT,
                                  capture_output=True, check=False)
            logged(part, done.stdout + done.stderr)
            healed = sum(map(int, re.findall(r"healed (\d+) times$", done.stdout, re.M)))
            faults = len(set(re.findall(r"^(?:FAIL|ERROR): (\S+)", done.stderr, re.M)))
            if not healed and not faults:
                sys.exit(f"error: the test of healings did not run: {(done.stdout + done.stderr)[-500:]}")
            after, trials, bad = after + 1, trials + healed, bad + faults
            print(f"soak: {part}: {trials}, {bad} bad", file=sys.stderr)
        keep(part, f"{first}:{after}", trials, bad)
    return soak


def soak_guide_scripts(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("guide_scripts")), default=0)
    after, bad = first, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_GUIDE_SEEDS": f"{after}:{SCRIPTS_AT_ONCE}", "LOCKSTEP_TEST_PEERS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, ROOT / "tests/slurm/test_guide_scripts.py", BUILD / "bin/lockstep"], env=env, text=True, cwd=ROOT,
                              capture_output=True, check=False)
        logged("guide_scripts", done.stdout + done.stderr)
        faults = len(re.findall(r"^(?:FAIL|ERROR): ", done.stderr, re.M))
        if done.returncode != 0 and not faults:
            sys.exit(f"error: the test of the guides' scripts did not run: {(done.stdout + done.stderr)[-500:]}")
        after, bad = after + SCRIPTS_AT_ONCE, bad + faults
        print(f"soak: guide_scripts: seeds {first} to {after - 1}, {bad} bad", file=sys.stderr)
    keep("guide_scripts", f"{first}:{after}", after - first, bad)


def soak_watch(deadline):
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("watch")), default=0)
    after, trials, bad = first, 0, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_WATCH_FAULTS": f"{after}:1", "LOCKSTEP_BIN": str(BUILD / "bin")}
        done = subprocess.run([sys.executable, ROOT / "tests/ranks/watch_faults_test.py"], env=env, text=True, cwd=ROOT, capture_output=True,
                              check=False)
        logged("watch", done.stdout + done.stderr)
        named = len(re.findall(r"^fault \w+, seed \d+: named", done.stdout, re.M))
        faults = len(set(re.findall(r"^(?:FAIL|ERROR): .*", done.stderr, re.M)))
        if not named and not faults:
            sys.exit(f"error: the test of faults did not run: {(done.stdout + done.stderr)[-500:]}")
        after, trials, bad = after + 1, trials + named + faults, bad + faults
        print(f"soak: watch: seeds {first} to {after - 1}, {bad} bad", file=sys.stderr)
    keep("watch", f"{first}:{after}", trials, bad)


def soak_pauses(deadline):
    steps = 25_000
    first = max((int(line["seeds"].partition(":")[2]) for line in counted("pauses")), default=0)
    after, bad = first, 0
    while time.monotonic() < deadline:
        env = os.environ | {"LOCKSTEP_WATCH_SEED": str(after), "LOCKSTEP_WATCH_STEPS": str(steps), "LOCKSTEP_BIN": str(BUILD / "bin")}
        done = subprocess.run([sys.executable, ROOT / "tests/ranks/watch_test.py", "Watch.test_pauses_below_the_limit_are_no_alarm"], env=env,
                              text=True, cwd=ROOT, capture_output=True, check=False)
        logged("pauses", done.stdout + done.stderr)
        after, bad = after + 1, bad + (done.returncode != 0)
        print(f"soak: pauses: {(after - first) * steps} steps, {bad} bad", file=sys.stderr)
    keep("pauses", f"{first}:{after}", (after - first) * steps, bad)


def second_clone():
    """A clone of this tree's commit in a path with a blank, built."""
    clone = WORK / "second clone"
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run(["git", "fetch", "--quiet", ROOT, "HEAD"], cwd=clone, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", "FETCH_HEAD"], cwd=clone, check=True)
    subprocess.run([clone / "tools/build", "release"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    return clone


@contextlib.contextmanager
def busy_cores():
    if not shutil.which("stress-ng"):
        sys.exit("error: stress-ng is not installed\n  hint: apt-get install stress-ng")
    load = subprocess.Popen(["stress-ng", "--quiet", "--cpu", str(len(os.sched_getaffinity(0)))])
    try:
        yield
    finally:
        load.terminate()
        load.wait()


def ctest(tree, until):
    results = WORK / f"stress-{tree.name}.xml"
    results.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", tree / "build/release", "--parallel", "2", "--label-regex", "ranks|slurm",
               "--schedule-random", "--stop-time", until.strftime("%H:%M:%S"), "--output-on-failure", "--output-junit", results]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {"LOCKSTEP_TEST_PEERS": "1", "PYTHONDONTWRITEBYTECODE": "1"}), results


def limits_of(tree):
    """The time limits of a tree's tests, in seconds."""
    shown = subprocess.run(["ctest", "--test-dir", tree / "build/release", "--show-only=json-v1"], check=True, capture_output=True, text=True)
    return {test["name"]: each["value"] for test in json.loads(shown.stdout)["tests"] for each in test.get("properties", [])
            if each["name"] == "TIMEOUT"}


def results_of(path, text, is_over, limits):
    """Numbers of tests that ran, and of those that failed. When the time is up, ctest cuts tests short and says that they took too long.
    One that took as long as its own limit did fail."""
    late = set(re.findall(r"^\s*\d+ - (\S+) \(Timeout\)", text, re.MULTILINE)) if is_over else set()
    cases = list(xml.parse(path).iter("testcase")) if path.exists() else []
    cut = {case.get("name") for case in cases if case.get("name") in late and float(case.get("time")) < limits.get(case.get("name"), 0)}
    ran = [case for case in cases if case.get("status") in ("run", "fail") and case.get("name") not in cut]
    return len(ran), sum(case.get("status") == "fail" for case in ran)


def soak_stress(deadline):
    trees = [ROOT, second_clone()]
    limits = limits_of(ROOT)
    until = datetime.datetime.now() + datetime.timedelta(seconds=max(60.0, deadline - time.monotonic()))
    until = until.replace(microsecond=0)  # ctest is told whole seconds. What it cuts short at the end would count as failed before them.
    trials = bad = 0
    with busy_cores():
        while datetime.datetime.now() < until:
            running = [ctest(tree, until) for tree in trees]
            for process, results in running:
                text = process.communicate()[0]
                logged("stress", text)
                ran, failed = results_of(results, text, datetime.datetime.now() >= until, limits)
                trials, bad = trials + ran, bad + failed
    keep("stress", "", trials, bad)


def show_counts():
    parts = {}
    for line in map(json.loads, COUNTS.read_text().splitlines() if COUNTS.exists() else []):
        sums = parts.setdefault(line["part"], [0, 0, 0])
        for i, value in enumerate((1, line["trials"], line["bad"])):
            sums[i] += value
    for part, (runs, trials, bad) in sorted(parts.items()):
        print(f"{part:<10} {trials:>8} trials  {bad:>4} bad  in {runs} runs")


def main():
    parts = {"drawn": soak_drawn, "stress": soak_stress,
             "kills": soak_damage("kills", "Damage.AWriterThatIsKilled*", 200),
             "corruptions": soak_damage("corruptions", "Damage.OfAnyKindIsFound", 5000),
             "strangers": soak_whole("strangers", "lockstep_store_test", "StoreServing.StrangersLeaveNothing*", 100_000),
             "held": soak_whole("held", "lockstep_format_test", "HeldSnapshotTest.IsWholeWhereverItsWriterIsKilled", 2_000),
             "moments": soak_moments, "resumes": soak_resumes, "watch": soak_watch,
             "pauses": soak_pauses, "heal": soak_healings("heal", "tests/ranks/heal_test.py", LOCAL_HEALINGS, 12),
             "heal_slurm": soak_healings("heal_slurm", "tests/slurm/test_heal.py", ["test_killed_ranks_are_replaced_in_their_step"], 20),
             "python_kills": soak_python_kills, "python_watch": soak_python_watch,
             "python_healthy": soak_python_healthy, "guide_scripts": soak_guide_scripts}
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*parts, "counts"])
    parser.add_argument("--minutes", type=float, default=10)
    asked = parser.parse_args()
    if asked.part == "counts":
        return show_counts()
    if not (BUILD / "bin/lockstep").exists():
        sys.exit("error: build/release is not there\n  hint: tools/build release")
    return parts[asked.part](time.monotonic() + 60 * asked.minutes)


if __name__ == "__main__":
    main()
