#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One trainer in Pythons of several kinds: a virtual environment, a tree as conda makes it, and a program without a libpython. They train the
same bits."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from python_models import NETS, PYTHON, PythonModelsTest, main

FACTS = "import json, sys, sysconfig; print(json.dumps([sys.version_info[:2], sysconfig.get_paths()['stdlib'], sysconfig.get_paths()['purelib']]))"


def facts(python):
    return json.loads(subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=True).stdout)


def libraries(program):
    return subprocess.run(["ldd", os.path.realpath(program)], capture_output=True, text=True, check=False).stdout


def static_python():
    """A Python of the peer's version whose program holds the interpreter itself, as Debian's and conda's do. None if there is none."""
    for place in ("/usr/bin/python3", sys.executable):
        if os.access(place, os.X_OK) and "libpython" not in libraries(place) and facts(place)[0] == facts(PYTHON)[0]:
            return place
    return None


class Environments(PythonModelsTest):
    def model(self):
        """A class that writes down which libpython its process has."""
        path = self.folder / "looking.py"
        path.write_text(f"import sys\nsys.path.insert(0, {str(NETS.parent)!r})\nimport nets\nlibraries = set(re.findall(r'\\S*libpython3\\S*', "
                        f"open('/proc/self/maps').read())) if (re := __import__('re')) else None\n"
                        f"open({str(self.folder / 'libraries')!r}, 'w').write(repr(sorted(libraries)))\nNet = nets.Plain\n")
        return f"python:{path}:Net"

    def trained_by(self, run, **env):
        nobody = {"LOCKSTEP_PYTHON": "", "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
        done = self.trained("trainer.max_steps=10", recipe=self.recipe(self.model()), ranks=2, run=run, env=nobody | env)
        return done["weights_digest"], json.loads((self.folder / run / "layout.json").read_text())["python"]

    def conda_like(self, python):
        """A prefix of its own with interpreter, standard library, headers and conda-meta. Its packages are the peer's."""
        prefix = self.folder / "conda env"
        (version, stdlib, _), packages = facts(python), facts(PYTHON)[2]
        name = "python{}.{}".format(*version)
        (prefix / "bin").mkdir(parents=True)
        (prefix / "conda-meta").mkdir()
        (prefix / "lib").mkdir()
        shutil.copy(os.path.realpath(python), prefix / "bin" / name)
        os.symlink(name, prefix / "bin/python")
        os.symlink(stdlib, prefix / "lib" / name)
        (prefix / "pyvenv.cfg").unlink(missing_ok=True)
        return prefix, packages

    def test_a_tree_as_conda_makes_it_and_a_program_without_libpython(self):
        python = static_python()
        if python is None:
            self.skipTest(f"there is no Python {facts(PYTHON)[0]} without a libpython here")
        venv = pathlib.Path(PYTHON).parent.parent
        wanted, host = self.trained_by("venv", VIRTUAL_ENV=str(venv))
        self.assertEqual(host, str(venv / "bin/python"))
        prefix, packages = self.conda_like(python)
        found, host = self.trained_by("conda", CONDA_PREFIX=str(prefix), PYTHONPATH=packages)
        self.assertEqual(host, str(prefix / "bin/python"))
        self.assertEqual((self.folder / "libraries").read_text(), "[]")
        self.assertEqual(found, wanted)
        self.assertIsNone(re.search("libpython", libraries(prefix / "bin/python")))


if __name__ == "__main__":
    main()
