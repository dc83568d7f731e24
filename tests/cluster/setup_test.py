#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep setup` with a stand-in for cmake, and who takes what it has built: setup_test.py LOCKSTEP"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

LOCKSTEP = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CMAKE = """#!/bin/sh
[ "$1" != --version ] || { echo "cmake version ${CMAKE_IS:-3.27.1}"; exit; }
if [ "$1" = -S ]; then echo "configured $*"; mkdir -p "$4/bin"; exit; fi
echo "[1/2] one"; echo "[2/2] two"
[ -z "$BROKEN" ] || { echo "error: no such header"; exit 3; }
printf '#!/bin/sh\\necho "trained $*"\\n' > "$2/bin/lockstep-train"
chmod +x "$2/bin/lockstep-train"
touch "$2/bin/liblockstep_hip.so" "$2/bin/cmake_leftover"
"""
RUNTIME = """#!/bin/sh
# A stand-in for the container runtime. As the real one does, it takes its own flags and the image.
shift; while [ "$1" != "$IMAGE" ]; do shift; done; shift
APPTAINER_CONTAINER=$IMAGE exec "$@"
"""
RECIPE = '[model]\nname = "mlp"\n[data]\nkind = "synthetic"\n'


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(os.path.realpath(self.enterContext(tempfile.TemporaryDirectory(prefix="lockstep-setup-"))))
        (self.folder / "bin").mkdir()
        self.program("cmake", CMAKE)
        self.program("apptainer", RUNTIME)
        shutil.copy(LOCKSTEP, self.folder / "bin" / "lockstep")
        (self.folder / "image.sif").touch()
        (self.folder / "r.toml").write_text(RECIPE)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def torch(self, version="2.9.1+rocm6.4", place="site"):
        torch = self.folder / place / "torch"
        (torch / "include" / "torch").mkdir(parents=True)
        (torch / "__init__.py").write_text("raise ImportError('not to be imported')\n")
        (torch / "version.py").write_text(f"__version__ = '{version}'\ncuda = None\nhip = '6.4.2'\n")
        return torch

    def lockstep(self, *words, **variables):
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.folder), "USER": "me",
                       "LOCKSTEP_CACHE": str(self.folder / "cache"), "LOCKSTEP_SOURCE": str(ROOT), "PYTHONPATH":
                       str(self.folder / "site"), "IMAGE": str(self.folder / "image.sif")} | variables
        return subprocess.run([self.folder / "bin" / "lockstep", *words], text=True, capture_output=True, check=False,
                              cwd=self.folder, env=environment)

    def refused(self, fact, hint, *words, **variables):
        done = self.lockstep("setup", *words, **variables)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn(fact, done.stderr)
        self.assertIn(hint, done.stderr)

    def test_builds_once_for_a_pytorch_and_train_takes_it(self):
        torch = self.torch()
        done = self.lockstep("setup", "--python", sys.executable, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual((made["torch"], made["torch_version"], made["device"]), (str(torch), "2.9.1+rocm6.4", "rocm-6.4.2"))
        self.assertIn("built 100 %", done.stderr)
        program = pathlib.Path(made["program"])
        beside = {path.name for path in program.parent.iterdir()}
        self.assertEqual(beside, {"lockstep-train", "liblockstep_hip.so"}, "it opens its libraries beside itself")
        share = program.parents[1] / "share/lockstep"
        self.assertTrue((share / "recipes/digits.toml").exists() and (share / "datasets/digits").is_dir(), "built-in names mean these")
        self.assertFalse((program.parents[1] / "build").exists())
        again = self.lockstep("setup", "--python", sys.executable)
        self.assertEqual(again.stdout, made["program"] + "\n")
        self.assertIn("it is built already for PyTorch 2.9.1+rocm6.4", again.stderr)
        trained = self.lockstep("train", "r.toml", "--run-dir", "run", PYTHONPATH="")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertTrue(trained.stdout.startswith("trained train "), trained.stdout)

    def test_builds_inside_an_image_and_submit_takes_that_for_it(self):
        self.torch()
        image = str(self.folder / "image.sif")
        done = self.lockstep("setup", "--container", image, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual(made["container"], image)
        self.assertIn("-in-image", made["program"])
        script = self.lockstep("submit", "r.toml", "--container", image, "--dry-run").stdout
        self.assertIn(f"export LOCKSTEP_TRAINER={made['program']}\n", script)
        self.assertIn(f"-B {self.folder}\n", script, "the cache lies in it")
        (self.folder / "set").mkdir()
        (self.folder / "s.toml").write_text('[model]\nname = "mlp"\n[data]\nkind = "folder"\npath = "set"\n')
        script = self.lockstep("submit", self.folder / "s.toml", "--container", image, "--dry-run").stdout
        self.assertIn(f"-B {self.folder}/set\n", script.replace(" \\", ""), "what it trains on")
        outside = self.lockstep("train", "r.toml", "--run-dir", "run")
        self.assertEqual(outside.returncode, 4, "what was built in an image is for that image")
        self.assertIn("the training half is not built here", outside.stderr)

    def test_the_site_s_own_image_is_named_in_its_profile(self):
        self.torch()
        self.refused("the profile generic names no image", "give the image's path", "--container", "site")
        image = self.folder / "image.sif"
        (self.folder / "profiles").mkdir()
        (self.folder / "profiles/here.toml").write_text(f'[about]\ndescription = "here"\n[detect]\nenv = ["AT_HERE"]\n[container]\nimage = "{image}"\n')
        done = self.lockstep("setup", "--container", "site", "--json", LOCKSTEP_PROFILE_PATH=str(self.folder / "profiles"), AT_HERE="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["container"], str(image))

    def test_a_build_is_staged_with_its_libraries_and_with_this_program(self):
        self.torch()
        self.lockstep("setup", "--python", sys.executable)
        self.program("sbatch", "#!/bin/sh\necho 4711\n")
        done = self.lockstep("submit", "r.toml", "--stage", "lockstep", "--run-dir", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        pack, = (self.folder / "cache/packs").glob("lockstep-*.tar")
        with tarfile.open(pack) as packed:
            names = {pathlib.PurePath(each.name).name for each in packed if each.isfile()}
        self.assertLessEqual({"lockstep", "lockstep-train", "liblockstep_hip.so"}, names)

    def test_says_what_is_missing(self):
        self.refused("has no PyTorch", "lockstep setup --python PATH", PYTHONPATH="")
        self.refused("'/no/python' cannot be started", "try it by hand", "--python", "/no/python")
        self.refused("there is no container image '", "check the path", "--container", "none.sif")
        self.torch()
        self.refused("cmake is 3.20.0, want 3.25 or newer", "from a module or from pip", CMAKE_IS="3.20.0")
        self.refused("error: no such header", "build.log'", BROKEN="1")
        self.refused("LOCKSTEP_SOURCE is '/no'", "unset it", LOCKSTEP_SOURCE="/no")

    def test_refuses_a_pytorch_that_is_too_old(self):
        self.torch("2.6.0")
        self.refused("is 2.6.0, want 2.7 or newer", "any program runs with it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
