#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which Python a job runs, and what its container sees: environments_test.py LOCKSTEP

Runs the batch scripts that `submit --dry-run` writes, with stand-ins for Slurm, conda, modules and Apptainer that behave
like them: each Python prints its own name, and the container hides the device's library unless it is told to show it.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
SRUN = '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n'
PYTHON = '#!/bin/bash\n[ "$1" = -c ] || echo "{name} ran $1, library: ${{DEVICE_LIBRARY:-none}}"\n'
CONDA = """#!/bin/bash
echo 'conda() {{ PATH={envs}/$2/bin:$PATH; }}'
"""
APPTAINER = """#!/bin/bash
shift
while :; do
  case $1 in
    --nv | --rocm) export DEVICE_LIBRARY=${1#--}; shift ;;
    -B) shift 2 ;;
    *) break ;;
  esac
done
shift
case $1 in find) exit 0 ;; esac
exec "$@"
"""


class Environments(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-environments-"))).resolve()
        self.bin = self.folder / "base/bin"
        self.write(self.bin / "srun", SRUN)
        for name in ("apptainer", "singularity"):
            self.write(self.bin / name, APPTAINER)
        self.write(self.bin / "conda", CONDA.format(envs=self.folder / "envs"))
        for name, where in (("base", self.bin), ("env", self.folder / "envs/torch/bin"), ("module", self.folder / "module/bin")):
            self.write(where / "python", PYTHON.format(name=name))
        self.write(self.folder / "image.sif", "")
        self.env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder), "USER": "me", "LOCKSTEP_RUNS": str(self.folder / "runs"),
                    # A module system is a function of the shell.
                    "BASH_FUNC_module%%": f"() {{ PATH={self.folder}/module/bin:$PATH; }}"}

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def dry_run(self, *words, code=0, **env):
        done = subprocess.run([LOCKSTEP, "submit", "--dry-run", *words], text=True, capture_output=True, check=False, cwd=self.folder,
                              env=self.env | env)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def run_script(self, *words, before=(), **env):
        """What the job's tasks print."""
        script = self.dry_run(*words, "--", "python", "train.py", **env).stdout
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
        done = subprocess.run([*before, "bash", "-c", script], text=True, capture_output=True, check=False, cwd=self.folder,
                              env=self.env | env | slurm, timeout=60)
        self.assertEqual(done.returncode, 0, script + done.stdout + done.stderr)
        return done.stdout

    def test_a_conda_environment_by_name_has_the_python(self):
        self.assertIn("env ran train.py", self.run_script("--conda", "torch"))

    def test_a_conda_environment_by_path_has_the_python(self):
        # The stand-in for `conda activate PATH` takes a name below envs/, which is the last part of PATH.
        self.write(self.bin / "conda", f"#!/bin/bash\necho 'conda() {{ PATH=$2/bin:$PATH; }}'\n")
        self.assertIn("env ran train.py", self.run_script("--conda", str(self.folder / "envs/torch")))

    def test_a_conda_path_without_a_python_is_refused(self):
        done = self.dry_run("--conda", str(self.folder / "envs/troch"), "--", "python", "train.py", code=4)
        self.assertIn("there is no Python environment", done.stderr)
        self.assertIn("envs/troch': it has no bin/python", done.stderr)
        self.assertIn("`conda env list`", done.stderr)

    def test_a_module_has_the_python(self):
        self.assertIn("module ran train.py", self.run_script("--set", 'cluster.modules=["pytorch"]'))

    def test_an_active_environment_has_the_python_if_the_job_loads_none(self):
        active = {"VIRTUAL_ENV": str(self.folder / "envs/torch")}
        self.assertIn("env ran train.py", self.run_script(**active))
        self.assertIn("module ran train.py", self.run_script("--set", 'cluster.modules=["pytorch"]', **active))

    def test_the_shells_own_python_is_the_last_resort(self):
        self.assertIn("base ran train.py", self.run_script())

    def test_an_image_on_nvidia_sees_the_drivers_library(self):
        profile = self.folder / "site.toml"
        profile.write_text('[devices]\nbackend = "cuda"\ncount = 4\n[sbatch]\ncores_per_device = 1\n')
        image = ("--container", "image.sif")
        self.assertIn("library: nv", self.run_script("--cluster", str(profile), "--devices", "1", *image))
        self.assertIn("library: none", self.run_script("--cluster", str(profile), "--devices", "0", *image))

    def test_flags_of_the_profile_are_not_given_twice(self):
        profile = self.folder / "site.toml"
        profile.write_text('[devices]\nbackend = "cuda"\ncount = 4\n[container]\nflags = ["--nv"]\n')
        script = self.dry_run("--cluster", str(profile), "--container", "image.sif", "--", "python", "train.py").stdout
        self.assertEqual(script.count("--nv"), 1)

    def test_on_an_unknown_cluster_the_node_tells(self):
        self.assertIn("library: none", self.run_script("--container", "image.sif"))
        with_driver = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && exec "$@"', "sh"]
        if subprocess.run([*with_driver, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        self.assertIn("library: nv", self.run_script("--container", "image.sif", before=with_driver))

    def test_lumis_image_is_taken_by_itself_and_said(self):
        lumi = ("--cluster", "lumi-g", "--account", "project_465000001")
        done = self.dry_run(*lumi, "--", "python", "train.py")
        self.assertIn("/lumi-multitorch-full-", done.stdout)
        self.assertIn("no Python environment was named: the tasks run in the image of lumi-g", done.stderr)
        self.assertNotIn(".sif", self.dry_run(*lumi, "--container", "none", "--", "python", "train.py").stdout)
        self.assertNotIn(".sif", self.dry_run(*lumi, "--conda", "torch", "--", "python", "train.py").stdout)
        self.assertNotIn(".sif", self.dry_run(*lumi, "--", "./a.out").stdout)
        self.assertIn("/lumi-multitorch-full-", self.dry_run(*lumi, "--container", "site", "--", "./a.out").stdout)
        refused = self.dry_run("--container", "site", "--", "python", "train.py", code=4)
        self.assertIn("the profile generic names no image", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
