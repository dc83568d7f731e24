#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/guide/commands.md has every command and flag, and docs/cluster/profile-keys.md every key of a profile, as the program prints them:
documented_test.py LOCKSTEP [--update]"""
import pathlib
import re
import subprocess
import sys
import unittest

UPDATE = "--update" in sys.argv and not sys.argv.remove("--update")
LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve()
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
COMMANDS = """# Every command and every flag

This page has every command's help, as `lockstep COMMAND --help` prints it. A test compares the two.
The other pages explain how to use the commands.
"""


KEYS = """# Every key of a profile

A profile describes a cluster. This page lists its keys, as `lockstep profile ls` prints them. A
test compares the two. [clusters.md](clusters.md) says how a profile is written and found.

| key | what it is | takes |
|---|---|---|
"""


WIDE, OF_THE_PAGE = 1000, 96  # A code block of the page is indented by four, and the page has 100 columns.


def told(*words, columns=WIDE):
    return subprocess.run([LOCKSTEP, *words], text=True, capture_output=True, check=True,
                          env={"PATH": "/usr/bin:/bin", "COLUMNS": str(columns)}).stdout


def sections(words=()):
    """A section for each command and each of its own, in the order of --help."""
    text = told(*words, "--help", columns=OF_THE_PAGE)
    title = " ".join(("lockstep", *words))
    yield f"## {title}\n\n" + "".join(f"    {line}".rstrip() + "\n" for line in text.strip().splitlines())
    _, _, below = text.partition("\nSubcommands:\n")
    for name in re.findall(r"^  ([a-z][a-z-]*)\s", below.partition("\n\n")[0], re.M):
        yield from sections((*words, name))


def rows():
    _, _, keys = told("profile", "ls").partition("\nKeys,")
    for key, what, takes in re.findall(r"^  (\S+) +(.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)$", keys, re.M):
        yield f"| `{key}` | {what} | {takes} |\n"


class Documented(unittest.TestCase):
    maxDiff = None

    def hold(self, page, text):
        if UPDATE:
            (DOCS / page).write_text(text)
        self.assertEqual(text, (DOCS / page).read_text(), f"{pathlib.Path(__file__).name} LOCKSTEP --update writes the page anew")

    def test_each_command_and_flag_stands_in_the_page(self):
        text = COMMANDS + "\n" + "\n".join(sections())
        self.assertGreater(text.count("\n## "), 30)
        self.hold("guide/commands.md", text)

    def test_each_key_of_a_profile_stands_in_the_page(self):
        text = KEYS + "".join(rows())
        _, _, keys = told("profile", "ls").partition("\nKeys,")
        self.assertEqual(text.count("\n| `"), keys.strip().count("\n"), "a key for each line")
        self.hold("cluster/profile-keys.md", text)


unittest.main(verbosity=2)
