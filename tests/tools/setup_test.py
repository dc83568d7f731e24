#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/setup sees what pip has installed, so that it fetches nothing twice."""
import pathlib
import re
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def wheel_lists():
    """The wheels of each folder that tools/setup makes, as (name, version)."""
    tested = re.search(r"^torch_tested=(\S+)$", (TOOLS / "common.sh").read_text(), re.MULTILINE)[1]
    lists = re.findall(r"^\w+_wheels=\((.*)\)$", (TOOLS / "setup").read_text(), re.MULTILINE)
    return [[tuple(wheel.strip('"').replace("$torch_tested", tested).split("==")) for wheel in each.split()] for each in lists]


def install(folder, wheels):
    """Makes the files by which a whole wheel is known. The rule for the folder's name is PyPA's, of 'recording installed projects'."""
    for name, version in wheels:
        about = folder / "lib/python3.11/site-packages" / f"{re.sub('[-_.]+', '_', name).lower()}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "RECORD").touch()


def is_whole(folder, wheels):
    words = [f"{name}=={version}" for name, version in wheels]
    script = f"source '{TOOLS}/common.sh'; venv_is_whole \"$@\""
    return subprocess.run(["bash", "-euc", script, "bash", folder, *words], check=False).returncode == 0


class Wheels(unittest.TestCase):
    def test_are_seen_where_all_are_installed(self):
        self.assertEqual(len(wheel_lists()), 3)
        for wheels in wheel_lists():
            with self.subTest(wheels), tempfile.TemporaryDirectory() as folder:
                install(pathlib.Path(folder), wheels[:-1])
                self.assertFalse(is_whole(folder, wheels))
                install(pathlib.Path(folder), wheels[-1:])
                self.assertTrue(is_whole(folder, wheels))

    def test_of_another_version_are_not_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            install(pathlib.Path(folder), [("py-spy", "0.4.0")])
            self.assertFalse(is_whole(folder, [("py-spy", "0.4.1")]))


if __name__ == "__main__":
    unittest.main()
