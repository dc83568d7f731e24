#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep profile new` as a person types it, on a Slurm that is two scripts: profile_new_test.py LOCKSTEP"""
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
RECORDED = pathlib.Path(__file__).resolve().parents[1] / "golden/slurm_survey"
SCONTROL = f"""#!/bin/sh
case "$2" in
  config) cat '{RECORDED}/config.txt' ;;
  partition) cat '{RECORDED}/partitions.txt' ;;
  node) cat '{RECORDED}/nodes.txt' ;;
esac
"""
MODULES = """module() { printf '/apps/modules:\\nPyTorch/2.5.1(default)\\npython/3.12\\n' >&2; }; export -f module; exec "$@" """


class ProfileNew(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep profile ")))
        (self.folder / "bin").mkdir()
        self.file = self.folder / ".config/lockstep/profiles/recorded.toml"
        self.program("scontrol", SCONTROL)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def lockstep(self, *words, code=0, start=(), **variables):
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "USER": "me"} | variables
        done = subprocess.run([*start, LOCKSTEP, *words], text=True, capture_output=True, check=False, cwd=self.folder,
                              env={name: value for name, value in environment.items() if value})
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def refused(self, code, fact, hint, *words, **variables):
        said = self.lockstep(*words, code=code, **variables).stderr
        self.assertIn(fact, said)
        self.assertIn(hint, said)
        self.assertFalse(self.file.exists(), "a refusal writes nothing")

    def test_a_machine_without_slurm(self):
        (self.folder / "bin/scontrol").unlink()
        self.refused(4, "there is no scontrol in PATH", "run this on a login node", "profile", "new", PATH="/nowhere")

    def test_a_controller_that_does_not_answer(self):
        self.program("scontrol", "#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1\n")
        self.refused(4, "scontrol show config does not answer: slurm_load_ctl_conf error: Unable to contact slurm controller",
                     "ask again in a while", "profile", "new")

    def test_names_that_are_no_files(self):
        for name in ("a/b", "auto", "generic", ".x", "mine.toml", "two words"):
            self.refused(2, f"a profile cannot be called '{name}'", "the file gets .toml by itself", "profile", "new", name)

    def test_no_home(self):
        self.refused(4, "neither HOME nor XDG_CONFIG_HOME is set", "--stdout prints the profile", "profile", "new", HOME="")
        self.assertIn("slurm_cluster", self.lockstep("profile", "new", "--stdout", HOME="").stdout)

    def test_a_compute_node_that_srun_does_not_give(self):
        self.program("srun", "#!/bin/sh\necho \"srun: error: $*\" >&2; exit 1\n")
        self.refused(4, "srun gave no compute node to look at: srun: error: -N1 -n1 --time=2 --job-name=lockstep-profile "
                     "--partition=a100 --gpus-per-node=4", "without --live the profile is written", "profile", "new", "--live")

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / ".config").write_text("a file")
        self.refused(6, ".config", "", "profile", "new")

    def test_checks_that_have_nothing_to_check(self):
        self.refused(2, "profile check was given no FILE", "--live takes the one found here", "profile", "check")
        self.refused(2, "--live was given 2 profiles, want one", "call it once for each", "profile", "check", "--live", "a", "b")

    def test_xdg_config_home_and_the_umask(self):
        mask = os.umask(0o027)
        try:
            said = self.lockstep("profile", "new", XDG_CONFIG_HOME=str(self.folder / "conf")).stdout
        finally:
            os.umask(mask)
        file = self.folder / "conf/lockstep/profiles/recorded.toml"
        self.assertIn(f"wrote {file}", said)
        self.assertEqual(file.stat().st_mode & 0o777, 0o640)
        script = self.lockstep("submit", "--dry-run", "--", "true", XDG_CONFIG_HOME=str(self.folder / "conf"),
                               SLURM_CLUSTER_NAME="recorded").stdout
        self.assertIn("#SBATCH --partition=a100", script)
        self.assertIn(f"export LOCKSTEP_PROFILE_PATH='{file.parent}'", script, "a job may not get XDG_CONFIG_HOME")

    def test_modules_and_scratch_are_told_by_what_the_login_shell_has(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        toml = self.lockstep("profile", "new", "--stdout", start=("bash", "-c", MODULES, "bash"), SCRATCH=str(scratch),
                             MODULEPATH="/apps/modules").stdout
        profile = tomllib.loads(toml)
        self.assertEqual(profile["storage"]["scratch"], "$SCRATCH")
        self.assertEqual(profile["software"]["torch"], "a module: PyTorch/2.5.1")
        self.assertIn('# not known: modules.load: what your programs need, as in ["PyTorch/2.5.1"]', toml)

    def test_a_system_that_has_a_profile_already(self):
        self.assertIn("lockstep brings a profile of this system, 'lumi-g', with more in it; yours goes before it",
                      self.lockstep("profile", "new", LUMI_STACK_NAME="LUMI").stdout)
        self.assertIn("* recorded", self.lockstep("profile", "ls", LUMI_STACK_NAME="LUMI").stdout, "Slurm tells it")

    def test_the_users_own_beats_one_that_is_built_in(self):
        config = self.folder / ".config/lockstep/profiles"
        config.mkdir(parents=True)
        (config / "ours.toml").write_text('[detect]\nslurm_cluster = "lumi"\n')
        listed = self.lockstep("profile", "ls", SLURM_CLUSTER_NAME="lumi").stdout
        self.assertIn("* ours", listed)
        self.assertNotIn("* lumi-g", listed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
