#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make dist` has made, held against what it promises: dist_test.py FOLDER

LOCKSTEP_OLD_ROOT names the root folder of an old Linux, such as debootstrap makes; the program is then run in it, too.
Ends with 77 where nothing was made.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SKIPPED = 77
DIST = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAM = DIST / "lockstep"
OLDEST = (2, 17)
# Of glibc itself: there with any glibc.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2",
          "ld-linux-x86-64.so.2"}
HIDDEN = ("CLI", "toml++", "nlohmann", "xxhash.h", "zlib.h", "png.h", "libpng16", "jpeglib.h", "hdf5")


def said(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **more)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


class OneFile(unittest.TestCase):
    def test_needs_no_glibc_newer_than_2_17(self):
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", said("objdump", "-T", PROGRAM))}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), OLDEST)

    def test_needs_nothing_but_glibc(self):
        needed = set(re.findall(r"NEEDED +(\S+)", said("objdump", "-p", PROGRAM)))
        self.assertLessEqual(needed, SYSTEM)
        self.assertNotRegex(said("objdump", "-T", PROGRAM), r"GLIBCXX_|CXXABI_")

    def test_runs_here(self):
        self.assertRegex(said(PROGRAM, "--version"), r"^lockstep \d")
        with tempfile.TemporaryDirectory() as folder:
            script = said(PROGRAM, "submit", "--dry-run", "--cluster", "lumi-g", "--account", "p", "--", "python", "train.py",
                          cwd=folder)
        self.assertIn("#SBATCH --gpus-per-node=8", script)
        self.assertEqual(said(PROGRAM, "launch", "-n", "2", "--", "sh", "-c", "echo $WORLD_SIZE"), "2\n2\n")

    @unittest.skipUnless(os.environ.get("LOCKSTEP_OLD_ROOT"), "LOCKSTEP_OLD_ROOT names no root folder of an old Linux")
    def test_runs_in_an_old_system(self):
        root = pathlib.Path(os.environ["LOCKSTEP_OLD_ROOT"])
        shutil.copy(PROGRAM, root / "lockstep")
        self.assertRegex(said("chroot", root, "/lockstep", "--version"), r"^lockstep \d")
        self.assertIn("n3\n", said("chroot", root, "/lockstep", "hosts", "n[1-3]"))


class Wheel(unittest.TestCase):
    def test_puts_lockstep_on_the_path_with_its_recipes(self):
        wheel, = DIST.glob("*.whl")
        with tempfile.TemporaryDirectory() as folder:
            venv = pathlib.Path(folder) / "venv"
            said(sys.executable, "-m", "venv", venv)
            said(venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
            self.assertRegex(said(venv / "bin/lockstep", "--version"), r"^lockstep \d")
            self.assertIn("digits", said(venv / "bin/lockstep", "recipe", "ls"))
            self.assertTrue(list((venv / "share/lockstep").glob("lockstep-*.tar.gz")))


class SourceBundle(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "hiding the system's headers needs root")
    def test_finds_all_that_it_needs_in_itself(self):
        bundle, = DIST.glob("lockstep-*.tar.gz")
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(bundle) as archive:
                archive.extractall(folder)
            source, = pathlib.Path(folder).glob("lockstep-*")
            hide = "".join(f"for each in /usr/include/{name} /usr/include/*/{name}; do "
                           '[ ! -d "$each" ] || mount -t tmpfs none "$each"; '
                           '[ ! -f "$each" ] || mount --bind /dev/null "$each"; done; ' for name in HIDDEN)
            build = (f"cmake -S '{source}' -B '{folder}/build' -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TRAIN=OFF "
                     f"-DLOCKSTEP_BUNDLED=ON && ninja -C '{folder}/build' lockstep_base lockstep_format lockstep_base_test")
            said("unshare", "--mount", "sh", "-c", hide + "exec sh -c \"$0\"", build)
            said(f"{folder}/build/bin/lockstep_base_test" if (pathlib.Path(folder) / "build/bin/lockstep_base_test").exists()
                 else f"{folder}/build/lockstep_base_test")


if not PROGRAM.exists():
    print(f"skipped: there is no {PROGRAM} (make dist)")
    sys.exit(SKIPPED)
unittest.main(verbosity=2)
