#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make dist` has made, held against what it promises: dist_test.py FOLDER

LOCKSTEP_OLD_ROOT names the root folder of an old Linux with Slurm's commands, as made by
`debootstrap --variant=minbase --include=slurm-client,munge bullseye FOLDER`; the program is then run in it, too, and
submits a job from there. Nothing in the folder is changed.
Ends with 77 where nothing was made.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "slurm"))
import bed as test_bed  # noqa: E402

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


OLD_ROOT = os.environ.get("LOCKSTEP_OLD_ROOT")
# In the container, Slurm of the test cluster and the job's folder have the same paths as outside. The mounts vanish with the process.
IN_OLD_ROOT = """set -eu
root=$1 folder=$2; shift 2
mount -t tmpfs none "$root/tmp"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
for each in "${SLURM_CONF%/*}" "$folder"; do mkdir -p "$root$each"; mount --bind "$each" "$root$each"; done
exec env HOME="$folder" PATH=/usr/bin:/bin:/usr/sbin chroot "$root" "$@"
"""


@unittest.skipUnless(OLD_ROOT, "LOCKSTEP_OLD_ROOT names no root folder of an old Linux")
class OldSystem(test_bed.BedTest):
    def setUp(self):
        super().setUp()
        shutil.copy(PROGRAM, self.folder)
        self.program = self.folder / "lockstep"

    def inside(self, *words):
        return self.bed.run("unshare", "--mount", "sh", "-c", IN_OLD_ROOT, "sh", OLD_ROOT, self.folder, *words)

    def test_starts_a_job_from_there(self):
        self.assertRegex(self.inside(self.program, "--version"), r"^lockstep \d")
        said = self.inside(self.program, "submit", "--json", "--run-dir", self.folder / "run", "--nodes", "2",
                           "--tasks-per-node", "2", "--", "sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK")
        state = self.state(json.loads(said)["job"])
        self.assertEqual(state["JobState"], "COMPLETED", self.log())
        self.assertEqual(sorted(re.findall(r"^\d \d \d \d$", self.log(), re.MULTILINE)), ["0 4 0 0", "1 4 1 0", "2 4 0 1", "3 4 1 1"])
        self.assertIn(" ended ", self.inside(self.program, "ls", self.folder))


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
    sys.exit(test_bed.SKIPPED)
unittest.main(verbosity=2)
