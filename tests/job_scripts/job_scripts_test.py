#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batch scripts, good and bad, and what `lockstep doctor` finds in each: job_scripts_test.py LOCKSTEP ROOT [--update]

Each script in scripts/ ends with comments that name the profile and each finding that is expected, with its line (0: about a
line that is missing). Others than those are failures, too. The guides' own scripts are read from ../shared/seeds, where there
is one. --update writes the golden side-by-side outputs anew.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

UPDATE = "--update" in sys.argv and not sys.argv.remove("--update")
ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
SCRIPTS = sorted((ROOT / "tests/job_scripts/scripts").glob("*.sbatch"))
GOLDEN = ROOT / "tests/golden/job_scripts"
SEEDS = ROOT.parent / "shared/seeds"
LEFT_OUT = ("SLURM", "SBATCH", "LOCKSTEP", "SRUN_")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    return {**kept, "COLUMNS": "80", "USER": "atif", "SCRATCH": "/scratch", "WORK": "/work", "FAST": "/fast", **more}


def run(*arguments, cwd, **more):
    return subprocess.run([LOCKSTEP, *arguments], cwd=cwd, env=environment(**more), text=True, capture_output=True, timeout=60)


def findings(path, cluster, cwd):
    done = run("doctor", path, "--cluster", cluster, "--json", cwd=cwd)
    report = json.loads(done.stdout.splitlines()[-1])
    has_error = any(each["severity"] == "error" for each in report["findings"])
    assert done.returncode == (4 if has_error else 0), done
    return sorted((each["code"], each["line"] or 0) for each in report["findings"])


class Corpus(unittest.TestCase):
    maxDiff = None

    def test_each_fault_is_found_and_none_is_invented(self):
        self.assertGreaterEqual(len(SCRIPTS), 25)
        for path in SCRIPTS:
            with self.subTest(script=path.name), tempfile.TemporaryDirectory() as folder:
                text = path.read_text()
                cluster = re.search(r"^# cluster: (\S+)", text, re.M)[1]
                expected = re.findall(r"^# expect: (\S+) (\d+)", text, re.M)
                self.assertEqual(findings(path, cluster, folder), sorted((code, int(line)) for code, line in expected))
                self.assertEqual(bool(expected), not path.name.startswith("good_"))

    def test_every_code_has_a_heading_and_a_script(self):
        sources = "".join(path.read_text() for path in (ROOT / "lockstep/cluster/script").glob("*_checks.cc"))
        codes = set(re.findall(r'"(script-[a-z-]+)"', sources))
        headings = re.findall(r"^### (script-[a-z-]+)$", (ROOT / "docs/cluster/job-scripts.md").read_text(), re.M)
        expected = set(re.findall(r"^# expect: (script-\S+)", "".join(path.read_text() for path in SCRIPTS), re.M))
        guides = {"script-cache-unset"}
        self.assertEqual(sorted(codes), sorted(headings))
        self.assertEqual(codes - expected - guides, set())


class Guides(unittest.TestCase):
    """The faults of the guides' scripts, listed by hand, with the reason for each."""

    EXPECTED = {
        # CRUK-CI: five nodes of four MI50.
        ("000", 0, "crukci-rocm"): [
            ("script-buffered", 12),      # python without -u
            ("script-cache-unset", 12),   # MI50 nodes: MIOpen's database is in the home folder, for 20 ranks
            ("script-python-unset", 12),  # conda is activated in the shell, not in the script
            ("script-srun-cores", 12),    # 10 cores for sbatch, none for srun
        ],
        # JUWELS Booster: one GPU of a node that is billed whole.
        ("002", 0, "juwels-booster"): [
            ("script-buffered", 19), ("script-srun-cores", 19), ("script-whole-node", 5)],
        # JUWELS Booster: four nodes, one task and four GPUs on each.
        ("002", 1, "juwels-booster"): [
            ("script-buffered", 20),
            ("script-no-interface", 20),    # four nodes, and the site's guide names ib0
            ("script-not-exported", 15),    # CUDA_VISIBLE_DEVICES=0,1,2,3
            ("script-srun-cores", 20),
            ("script-tasks-devices", 20),   # its own comment says that the two must match
        ],
        # LUMI-G. Masks, network interface, cores and -u are right, in the batch script and in the script of the tasks.
        ("003", 1, "lumi-g"): [
            ("script-cache-erased", 14),    # rm -rf of the folder below
            ("script-cache-shared", 9),     # no job number in its name
            ("script-not-understood", 23),  # $WITH_CONDA comes from the container
            ("script-placeholder", 10),     # project_<your_project_id>
        ],
    }

    @unittest.skipUnless(SEEDS.is_dir(), "skipped: there is no ../shared/seeds with the guides")
    def test_each_known_fault_is_found_and_none_is_invented(self):
        for (guide, number, cluster), expected in self.EXPECTED.items():
            with self.subTest(guide=guide, number=number), tempfile.TemporaryDirectory() as folder:
                text = next(SEEDS.glob(guide + "*")).read_text()
                blocks = re.findall(r"^```[ a-z]*\n(.*?)^```", text, re.S | re.M)
                blocks = [block for block in blocks if "#SBATCH" in block or "run-pytorch" in block or "mnist_DDP.py --gpu" in block]
                if guide == "003":
                    wrapper = next(block for block in blocks if "mnist_DDP.py --gpu" in block)
                    (pathlib.Path(folder) / "run-pytorch.sh").write_text(wrapper)
                    blocks = [None, next(block for block in blocks if "#SBATCH" in block)]
                    blocks[1] = blocks[1].replace("/project/your_project/your_directory", folder)
                script = pathlib.Path(folder) / "job.sh"
                script.write_text(blocks[number])
                self.assertEqual(findings(script, cluster, folder), sorted(expected))


class SideBySide(unittest.TestCase):
    maxDiff = None
    SHOWN = {"good_lumi": 80, "bad_no_bind": 80, "good_torchrun": 80, "good_container": 80, "bad_memory_little": 180}

    def output(self, name, columns):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            shutil.copy(ROOT / f"tests/job_scripts/scripts/{name}.sbatch", folder + "/job.sh")
            cluster = re.search(r"^# cluster: (\S+)", pathlib.Path(folder, "job.sh").read_text(), re.M)[1]
            done = run("submit", "--from", "job.sh", "--cluster", cluster, "--run-dir", "/runs/one", cwd=folder, COLUMNS=str(columns))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), ["job.sh"], "nothing is created")
            return done.stdout.replace(folder, "/HERE").replace(LOCKSTEP, "/bin/lockstep")

    def test_prints_both_with_each_difference_and_fits_the_terminal(self):
        for name, columns in self.SHOWN.items():
            with self.subTest(script=name):
                text = self.output(name, columns)
                # tests/golden/submit has such scripts. A test below compares this one with the output of --dry-run.
                kept = re.sub(r"(?<=\n== ours\n\n).*?(?=\n== Nothing was submitted)", "[as submit --dry-run prints it]\n", text, flags=re.S)
                golden = GOLDEN / f"{name}.txt"
                if columns == 80:
                    if UPDATE:
                        golden.parent.mkdir(exist_ok=True)
                        golden.write_text(kept)
                    self.assertEqual(kept, golden.read_text())
                own_words = text.split("== job.sh")[0]
                for line in own_words.splitlines():
                    if max(map(len, line.split()), default=0) < 60:
                        self.assertLessEqual(len(line), min(columns, 100), line)
                for line in text.splitlines():
                    self.assertLessEqual(len(line), columns if columns > 160 else 400, line)

    def test_the_command_that_it_prints_writes_the_script_that_it_shows(self):
        for path in SCRIPTS:
            if not path.name.startswith("good_"):
                continue
            with self.subTest(script=path.name), tempfile.TemporaryDirectory() as folder:
                cluster = re.search(r"^# cluster: (\S+)", path.read_text(), re.M)[1]
                ours = run("submit", "--from", path, "--cluster", cluster, "--run-dir", "/runs/one", "--json", cwd=folder)
                self.assertEqual(ours.returncode, 0, ours.stderr)
                shown = json.loads(ours.stdout)
                words = shown["command"][1:]
                again = run(words[0], "--dry-run", *words[1:], cwd=folder)
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertEqual(again.stdout, shown["ours"])

    def test_a_word_that_only_the_job_knows_is_left_to_a_shell_in_the_task(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "tests/job_scripts/scripts/bad_partly_exported.sbatch"
            shown = json.loads(run("submit", "--from", script, "--cluster", "generic", "--json", cwd=folder).stdout)
            words = shown["command"]
            self.assertEqual(words[words.index("--") + 1:],
                             ["bash", "-c", 'exec python -u train.py --lr 0.1 --epochs 3 --name "results $SLURM_JOB_ID"'])
            self.assertIn("#SBATCH --cpus-per-task=8\n", shown["ours"])
            self.assertEqual([each.split(":")[0] for each in shown["left_out"]],
                             ["line 6, cd $HOME/project", "line 9, MASTER_ADDR", "line 10, MASTER_PORT"])

    def test_the_signal_of_a_script_is_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            told = lambda *flags: json.loads(run("submit", "--from", "job.sh", "--cluster", "perlmutter", *flags, "--json", cwd=folder).stdout)
            text = (ROOT / "tests/job_scripts/scripts/good_signal.sbatch").read_text()
            script = pathlib.Path(folder, "job.sh")
            script.write_text(text)
            shown = told()
            words = shown["command"]
            self.assertEqual([words[words.index(flag) + 1] for flag in ("--signal", "--requeue")], ["USR2@120", "no"])
            self.assertIn("#SBATCH --signal=B:USR1@120\n#SBATCH --no-requeue\n", shown["ours"])
            self.assertIn("scancel --signal=USR2 ", shown["ours"])
            self.assertIn("--signal USR1@30", " ".join(told("--signal", "USR1@30")["command"]), "what is typed comes first")
            script.write_text(text.replace('kill -USR2 "$step"; wait "$step"', "scontrol requeue $SLURM_JOB_ID"))
            shown = told()
            self.assertNotIn("--signal", shown["command"])
            self.assertIn("line 4, --signal=B:USR1@120: the batch shell alone gets it", shown["left_out"][0])

    def test_what_is_typed_comes_before_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "tests/job_scripts/scripts/good_lumi.sbatch"
            done = run("submit", "--from", script, "--cluster", "lumi-g", "--nodes", "4", "--json", cwd=folder)
            self.assertIn("#SBATCH --nodes=4\n", json.loads(done.stdout)["ours"])

    def test_a_program_beside_from_is_refused(self):
        script = ROOT / "tests/job_scripts/scripts/good_lumi.sbatch"
        done = run("submit", "--from", script, "--", "true", cwd="/")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--from takes the program from", done.stderr)

    def test_flags_that_have_no_meaning_here_are_refused(self):
        script = ROOT / "tests/job_scripts/scripts/good_lumi.sbatch"
        for flags in (["--chain", "2"], ["--env", "A=1"], ["--interactive"], ["--stage", "/x"]):
            done = run("submit", "--from", script, *flags, cwd="/")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--from goes with flags of one value", done.stderr)
        done = run("doctor", script, "--run", "x", cwd="/")
        self.assertEqual(done.returncode, 2)
        self.assertIn("looks at the script alone", done.stderr)

    def test_a_missing_script_is_a_usage_error(self):
        for words in (["doctor", "no.sh"], ["submit", "--from", "no.sh"]):
            done = run(*words, cwd="/")
            self.assertEqual(done.returncode, 2)
            self.assertIn("there is no batch script 'no.sh'", done.stderr)

    def test_a_clean_script_says_so(self):
        done = run("doctor", ROOT / "tests/job_scripts/scripts/good_generic_cpu.sbatch", "--cluster", "generic", cwd="/")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^nothing found in \S.*\n$")


if __name__ == "__main__":
    unittest.main()
