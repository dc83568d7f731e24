#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `submit` and `profile` say to a wrong request: the exit code, the fact, the way out. bad_input_test.py LOCKSTEP"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
RECIPE = pathlib.Path(__file__).resolve().parents[2] / "recipes" / "digits.toml"
SBATCH_REFUSES = "#!/bin/sh\necho 'sbatch: error: Batch job submission failed: Invalid account' >&2\nexit 1\n"
SBATCH_WORKS = "#!/bin/sh\nenv > \"$SEEN\"\necho '4711;testbed'\n"


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-submit-")))
        (self.folder / "bin").mkdir()

    def lockstep(self, *words, **variables):
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"} | variables
        return subprocess.run([LOCKSTEP, *words], text=True, capture_output=True, check=False, cwd=self.folder, env=environment)

    def refused(self, code, fact, hint, *words, **variables):
        done = self.lockstep(*words, **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(fact, done.stderr)
        self.assertIn(hint, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(os.listdir(self.folder)), self.left, "a refusal leaves nothing behind")

    @property
    def left(self):
        return sorted({"bin", *self.kept})

    kept = ()

    def sbatch(self, text):
        path = self.folder / "bin" / "sbatch"
        path.write_text(text)
        path.chmod(0o755)

    def test_an_unknown_cluster(self):
        self.refused(2, "unknown cluster 'frontir'", "did you mean 'frontier'?",
                     "submit", "--cluster", "frontir", "--dry-run", "--", "true")

    def test_a_profile_with_a_wrong_key(self):
        self.kept = ("mine.toml",)
        (self.folder / "mine.toml").write_text("[sbatch]\nmemry = \"1G\"\n")
        path = str(self.folder / "mine.toml")
        self.refused(3, "mine.toml:2: unknown key 'sbatch.memry'", "did you mean sbatch.memory?",
                     "submit", "--cluster", path, "--dry-run", "--", "true")
        self.refused(3, "mine.toml:2: unknown key 'sbatch.memry'", "did you mean sbatch.memory?", "profile", "check", path)

    def test_more_nodes_than_the_partition_has(self):
        self.refused(4, "partition 'dev-g' of lumi-g takes at most 32 nodes", "--partition standard-g gives 64 nodes",
                     "submit", "--cluster", "lumi-g", "--account", "p", "--partition", "dev-g", "--nodes", "64", "--", "true")

    def test_a_time_over_the_limit_for_that_many_nodes(self):
        self.refused(4, "gives 2 nodes at most 02:00:00", "--time 02:00:00 --chain 2",
                     "submit", "--cluster", "frontier", "--account", "p", "--nodes", "2", "--time", "03:00:00", "--", "true")
        self.refused(2, "--time is '90', want HH:MM:SS", "cannot be told apart", "submit", "--time", "90", "--", "true")

    def test_no_account(self):
        self.refused(4, "no account is named, and juwels-booster wants one", "--account NAME",
                     "submit", "--cluster", "juwels-booster", "--", "true")

    def test_a_program_without_python_and_an_image_without_its_plugin_are_warned_of(self):
        def said(cluster, *words):
            done = self.lockstep("submit", "--cluster", cluster, "--account", "abc123", "--dry-run", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stderr

        python = ("--", "python", "train.py")
        self.assertIn("the modules of leonardo (cuda nccl openmpi) bring no PyTorch\n  hint: --conda ENV", said("leonardo", *python))
        self.assertIn("there: the modules profile/deeplrn and cineca-ai", said("leonardo", *python))
        for words in (("--conda", "torch", *python), ("--setup", "source env/bin/activate", *python), ("--", "./a.out")):
            self.assertNotIn("bring no PyTorch", said("leonardo", *words), words)
        for cluster in ("perlmutter", "generic", "lumi-g"):
            self.assertNotIn("bring no PyTorch", said(cluster, *python), "its modules or its image do")
        image = ("--container", "/images/torch.sif")
        self.assertIn("an image on several nodes of frontier: no module loads RCCL's network plugin", said("frontier", "--nodes", "2", *image, *python))
        for words in (("--nodes", "1", *image), ("--nodes", "2"), ("--nodes", "2", *image, "--env", "NCCL_NET_PLUGIN=/p/librccl-net.so")):
            self.assertNotIn("network plugin", said("frontier", *words, "--conda", "e", *python), words)

    def test_generic_takes_the_cores_of_a_device_from_slurm(self):
        def said(*words, sinfo="echo 'gpu*|64|gpu:a100:4(S:0-1)'"):
            path = self.folder / "bin" / "sinfo"
            path.write_text(f"#!/bin/sh\n{sinfo}\n")
            path.chmod(0o755)
            return self.lockstep("submit", "--cluster", "generic", "--dry-run", "--run-dir", "run", *words, "--", "true")

        done = said("--devices", "4")
        self.assertIn("#SBATCH --cpus-per-task=16\n", done.stdout, done.stderr)
        self.assertNotIn("does not know how many cores", done.stderr)
        self.assertIn("#SBATCH --cpus-per-task=3\n", said("--devices", "4", "--cores-per-task", "3").stdout)
        silent = said("--devices", "4", sinfo="exit 1")
        self.assertNotIn("--cpus-per-task=", silent.stdout.split("set -eo")[0])
        self.assertIn("does not know how many cores", silent.stderr)

    def test_a_study_says_once_what_holds_for_all_its_jobs(self):
        done = self.lockstep("scale", str(RECIPE), "--dry-run", "--nodes", "1,2,4")
        self.assertEqual(done.stderr.count("does not know how many cores"), 1, done.stderr)
        self.assertEqual(done.stderr.count("--cores-per-task N"), 1)

    def test_what_a_job_costs_is_said_in_the_sites_unit_and_idle_devices_with_it(self):
        self.sbatch(SBATCH_WORKS)
        words = ("submit", "--cluster", "lumi-g", "--account", "project_465000001", "--time", "02:00:00", "--run-dir", "run")
        done = self.lockstep(*words, "--nodes", "2", "--dry-run", "--json", "--", "true")
        self.assertIn("a job costs at most 16 GPU-hours: 02:00:00 of 2 nodes\n", done.stderr)
        self.assertEqual(json.loads(done.stdout)["billing"], {"unit": "GPU-hours", "most": 16})
        self.assertNotIn("bills whole nodes", done.stderr)
        alone = self.lockstep(*words, "--devices", "1", "--dry-run", "--", "true").stderr
        self.assertIn("standard-g bills whole nodes: all 8 devices of each, 1 asked for\n  hint: --partition small-g bills what is asked for", alone)
        self.assertIn("8 GPU-hours", alone)
        small = self.lockstep(*words, "--devices", "1", "--partition", "small-g", "--", "true", SEEN=str(self.folder / "seen"))
        self.assertIn("a job costs at most 1 GPU-hours", small.stderr)
        self.assertEqual(json.loads((self.folder / "run" / "job.json").read_text())["billing"], {"unit": "GPU-hours", "per_hour": 0.5})
        listed = self.lockstep("ls", str(self.folder))
        self.assertIn("02:00:00   1 GPU-hours", listed.stdout, listed.stderr)

    def test_setup_once_stands_in_the_script_and_not_in_the_tasks(self):
        words = ("submit", "--cluster", "juwels-booster", "--account", "a", "--nodes", "2", "--dry-run")
        done = self.lockstep(*words, "--setup-once", "source sc_venv/activate.sh", "--", "python", "train.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("source sc_venv/activate.sh\n"), 1)
        self.assertNotIn("setup=", done.stdout)
        once, found = done.stdout.index("source sc_venv"), done.stdout.index("program=$(type -P python")
        self.assertLess(done.stdout.index("module load"), once)
        self.assertLess(once, found, "its Python is found after it")
        self.assertNotIn("--setup-once runs", done.stderr)
        each = self.lockstep(*words, "--setup", "source sc_venv/activate.sh", "--", "python", "train.py")
        self.assertIn("--setup runs in each of 8 tasks: --setup-once runs a line once", each.stderr)

    def test_downloads_go_to_scratch_where_the_home_folder_is_small(self):
        words = ("submit", "--account", "project_465000001", "--dry-run", "--cluster")
        script = self.lockstep(*words, "lumi-g", "--", "true").stdout
        self.assertIn("export TORCH_HOME=/scratch/project_465000001/me/.cache/torch\n", script)
        self.assertIn("export HF_HOME=/scratch/project_465000001/me/.cache/huggingface\n", script)
        own = self.lockstep(*words, "lumi-g", "--env", "HF_HOME=/mine", "--", "true", TORCH_HOME="/models").stdout
        self.assertEqual([line for line in own.splitlines() if "TORCH_HOME" in line or "HF_HOME" in line], ["export HF_HOME=/mine"])
        self.assertNotIn("TORCH_HOME", self.lockstep(*words, "frontier", "--", "true").stdout)

    def test_an_account_of_another_form_is_warned_of_before_slurm_refuses_it(self):
        words = ("submit", "--cluster", "lumi-g", "--dry-run")
        for account, is_odd in (("465000001", True), ("project_465000001", False), ("project_46500000", True)):
            done = self.lockstep(*words, "--account", account, "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(f"the account '{account}' does not have the form of the accounts of lumi-g (lumi-g.toml:" in done.stderr, is_odd, done.stderr)
            self.assertEqual("hint: want project_ and nine digits" in done.stderr, is_odd)
        self.kept = ("mine.toml",)
        (self.folder / "mine.toml").write_text("[slurm]\naccount_pattern = '('\n")
        self.refused(3, "mine.toml:2: slurm.account_pattern = '('", "is not a regular expression", "profile", "check", str(self.folder / "mine.toml"))

    def test_a_container_image_that_is_missing(self):
        self.refused(4, "there is no container image '", "lockstep profile show generic",
                     "submit", "--container", "none.sif", "--", "true")
        done = self.lockstep("submit", "--cluster", "lumi-g", "--account", "p", "--container", "/none.sif", "--dry-run", "--", "true")
        self.assertEqual(done.returncode, 0, "another site's images cannot be seen from here")

    def test_sbatch_that_refuses(self):
        self.sbatch(SBATCH_REFUSES)
        self.refused(4, "sbatch refuses the job: sbatch: error: Batch job submission failed: Invalid account", "--dry-run",
                     "submit", "--run-dir", str(self.folder / "run"), "--", "true")

    def test_no_sbatch_at_all(self):
        self.refused(4, "there is no sbatch here", "--dry-run prints the script anywhere", "submit", "--run-dir",
                     str(self.folder / "run"), "--", "true", PATH=str(self.folder / "bin"))

    def test_a_launcher_under_one_task_for_each_device(self):
        self.refused(2, "torchrun starts ranks of its own", "-- python train.py --lr 3; or keep a launcher", "submit", "--devices", "4",
                     "--", "torchrun", "--nproc_per_node=4", "train.py", "--lr", "3")

    def test_neither_or_both_of_recipe_and_program(self):
        self.refused(2, "neither a recipe nor a program was given", "lockstep submit RECIPE", "submit", "--nodes", "2")
        self.refused(2, "both a recipe and a program were given", "want one", "submit", "digits", "--", "true")

    def test_a_flag_of_sbatch_that_other_numbers_follow_from(self):
        self.refused(2, "--sbatch=--nodes=4", "give it as --nodes", "submit", "--sbatch=--nodes=4", "--", "true")
        self.refused(2, "'exclusive' is not a flag of sbatch", "--sbatch=--exclusive", "submit", "--sbatch=exclusive", "--", "true")

    def test_what_sbatch_is_given(self):
        self.sbatch(SBATCH_WORKS)
        done = self.lockstep("submit", "--run-dir", "run", "--", "true", SEEN=str(self.folder / "seen"),
                             SBATCH_PARTITION="other", SLURM_JOB_ID="1", SLURM_CONF="/c", SBATCH_RESERVATION="course")
        self.assertEqual((done.returncode, done.stdout), (0, f"job 4711\nrun folder {self.folder}/run\n"), done.stderr)
        seen = (self.folder / "seen").read_text()
        for gone in ("SBATCH_PARTITION", "SLURM_JOB_ID"):
            self.assertNotIn(gone, seen, "it would override the script")
        for kept in ("SLURM_CONF=/c", "SBATCH_RESERVATION=course"):
            self.assertIn(kept, seen)
        script = (self.folder / "run" / "job.sh").read_text()
        self.assertIn("#SBATCH --partition=other\n", script)
        self.assertTrue(os.access(self.folder / "run" / "job.sh", os.X_OK))
        self.assertTrue((self.folder / "run" / "logs").is_dir())

    def test_a_word_that_is_not_utf8_reaches_the_job(self):
        self.sbatch(SBATCH_WORKS)
        done = subprocess.run([LOCKSTEP, "submit", "--run-dir", b"run-\xe9", "--", "true", b"caf\xe9.csv"], capture_output=True, check=False,
                              cwd=self.folder, env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "USER": "me",
                                                    "SEEN": str(self.folder / "seen")})
        self.assertEqual(done.returncode, 0, done.stderr)
        run = os.fsencode(self.folder) + b"/run-\xe9"
        with open(run + b"/job.sh", "rb") as script:
            self.assertIn(b"caf\xe9.csv", script.read())
        with open(run + b"/job.json", encoding="utf-8") as record:
            self.assertEqual(json.load(record)["job"], "4711")

    def test_a_sweep_makes_a_job_for_each_combination(self):
        self.sbatch(SBATCH_WORKS)
        recipe = '[model]\nname = "mlp"\n[data]\nkind = "synthetic"\n'
        (self.folder / "r.toml").write_text(recipe)
        done = self.lockstep("submit", "r.toml", "--run-dir", "runs", "--sweep", "optimizer.lr=0.1,0.01", "--sweep",
                             "trainer.seed=1,2", "--json", SEEN=str(self.folder / "seen"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["trials"]), 4)
        self.assertEqual(sorted(os.listdir(self.folder / "runs")),
                         ["01-lr-0.1-seed-1", "02-lr-0.1-seed-2", "03-lr-0.01-seed-1", "04-lr-0.01-seed-2", "sweep.json"])
        self.assertIn("--set optimizer.lr=0.01 --set trainer.seed=1",
                      (self.folder / "runs" / "03-lr-0.01-seed-1" / "job.sh").read_text())

    def test_a_dry_run_as_json_is_one_object_with_the_script_and_no_number(self):
        plain = self.lockstep("submit", "--dry-run", "--run-dir", "run", "--nodes", "2", "--", "true").stdout
        done = self.lockstep("submit", "--dry-run", "--json", "--run-dir", "run", "--nodes", "2", "--", "true")
        job = json.loads(done.stdout)
        self.assertEqual((job["job"], job["script_text"], job["nodes"], job["tasks"]), (None, plain, 2, 2), done.stderr)
        self.assertEqual(job["script"], str(self.folder / "run" / "job.sh"))
        trials = json.loads(self.lockstep("submit", str(RECIPE), "--dry-run", "--json", "--run-dir", "run", "--sweep", "trainer.seed=1,2").stdout)
        self.assertEqual([pathlib.Path(each["run_dir"]).name for each in trials["trials"]], ["01-seed-1", "02-seed-2"])
        packed = json.loads(self.lockstep("submit", str(RECIPE), "--dry-run", "--json", "--run-dir", "run", "--sweep", "trainer.seed=1,2",
                                          "--pack", "--devices", "2").stdout)
        self.assertEqual([len(each["trials"]) for each in packed["jobs"]], [2])
        study = json.loads(self.lockstep("scale", str(RECIPE), "--dry-run", "--json", "--nodes", "1,2").stdout)
        self.assertEqual([each["nodes"] for each in study["jobs"]], [1, 2])
        self.assertEqual(os.listdir(self.folder), ["bin"], "a dry run creates nothing")

    def test_a_sweep_that_varies_nothing(self):
        self.refused(2, "varies nothing, want KEY=VALUE", "--sweep optimizer.lr=0.1,0.01", "submit", str(RECIPE), "--sweep", "a.b")
        self.refused(2, "--sweep varies 'a.b', but the command has no {a.b}", "write {a.b} where its value belongs", "submit",
                     "--sweep", "a.b=1,2", "--", "true")
        self.refused(3, "unknown setting 'optimizer.lrr'", "did you mean optimizer.lr?", "submit", str(RECIPE), "--run-dir", "run",
                     "--sweep", "optimizer.lrr=1,2")


if __name__ == "__main__":
    unittest.main(verbosity=2)
