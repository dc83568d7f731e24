#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every key of a profile is read by the program: profile_keys_test.py

A key that nothing reads promises what it does not keep. `profile show` prints all keys and does not count.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "lockstep/cluster/profile/schema.cc"
ROW = re.compile(r'\{"([\w.*]+)", \[\]\(P& p, Name(?: n)?\) -> Slot \{ return &p\.([\w.\[\]]+); \}')
FOR_PEOPLE = {"about", "base", "detect"}  # What the profile is, and how it is found: read where profiles are.
# Facts that `profile show` prints for a person. No decision depends on them.
FACTS = {"node.cpu", "node.reserved_cores", "devices.arch", "slurm.nodes", "storage.home", "storage.project", "storage.flash", "storage.purge_days", "storage.stripe",
         "software.build_image", "software.tensorboard", "software.telemetry"}


WORDS = re.compile(r'"(?:[^"\\\n]|\\.)*"')  # A key's name in a message is no reading of it.


def is_reader(path):
    """False of tests, of where profiles are made, and of the drafts that `profile new` fills in."""
    if path.name.endswith("_test.cc") or path.match("cluster/survey/draft*"):
        return False
    return "cluster/profile" not in str(path) or path.name == "profile.cc"


def sources():
    for path in sorted((ROOT / "lockstep").rglob("*.cc")) + sorted((ROOT / "lockstep").rglob("*.h")):
        if is_reader(path):
            yield WORDS.sub('""', path.read_text())


class Keys(unittest.TestCase):
    def test_each_is_read(self):
        text = "\n".join(sources())
        rows = ROW.findall(SCHEMA.read_text())
        self.assertGreater(len(rows), 60, "the table of keys has another form now")
        unread = []
        for key, member in rows:
            if key.split(".")[0] in FOR_PEOPLE:
                continue
            *parents, leaf = re.sub(r"\[n\]", "", member).split(".")
            holder = rf"\b(?:{parents[-1]}|[a-z_]*)" if parents and parents[-1] in ("partitions", "qos") else rf"\b{parents[-1]}" if parents else r"\bprofile"
            if not re.search(rf"{holder}(?:\(\))?(?:\.|->){leaf}\b", text):
                unread.append(key)
        self.assertEqual(set(unread) - FACTS, set(), "give each a reader, or take it out of the schema")
        self.assertEqual(FACTS - set(unread), set(), "these have a reader now: take them out of FACTS")


if __name__ == "__main__":
    unittest.main(verbosity=2)
