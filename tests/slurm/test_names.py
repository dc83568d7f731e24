#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job on a bare machine: nothing resolves its own name, there is no /etc/hosts and no file system of control groups.

test_names.py LOCKSTEP
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import bed as test_bed

INSIDE = "LOCKSTEP_TEST_WITHOUT_NAMES"
BARE = """set -e
hostname nameless
if grep -q ' /sys/fs/cgroup ' /proc/self/mounts; then umount -R /sys/fs/cgroup; fi
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
rm -f /etc/hosts
echo 'hosts: files' > /etc/nsswitch.conf
shift
exec "$@"
"""


class OnABareMachine(test_bed.BedTest):
    program = str(pathlib.Path(sys.argv[1]).resolve())

    def test_the_own_name_means_nothing_here(self):
        with self.assertRaises(OSError):
            socket.getaddrinfo(socket.gethostname(), None)

    def test_there_is_no_hosts_file_here(self):
        self.assertFalse(pathlib.Path("/etc/hosts").exists())

    def test_there_are_no_control_groups_here(self):
        self.assertNotIn("/sys/fs/cgroup", pathlib.Path("/proc/self/mounts").read_text())

    def test_ranks_on_two_nodes_meet(self):
        job = self.job("--nodes", "2", "--tasks-per-node", "2", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR")
        self.assertEqual(self.state(job)["JobState"], "COMPLETED", self.log())
        said = sorted(line.split() for line in self.log().splitlines() if line.startswith("rank "))
        self.assertEqual([words[1] for words in said], ["0", "1", "2", "3"], self.log())
        self.assertEqual(len({words[-1] for words in said}), 1, self.log())


def run_inside():
    """This script's exit code in namespaces of its own, where the machine has another name and knows no names."""
    spaces = ["unshare", "--uts", "--mount"]
    tried = subprocess.run([*spaces, "true"], text=True, capture_output=True, check=False)
    if tried.returncode != 0:
        print(f"skipped: no namespaces here: {tried.stderr.strip()}")
        return test_bed.SKIPPED
    with tempfile.TemporaryDirectory(prefix="lockstep-names-") as folder:
        return subprocess.run([*spaces, "sh", "-c", BARE, "sh", folder, sys.executable, *sys.argv],
                              env=os.environ | {INSIDE: "1"}, check=False).returncode


test_bed.skip_where_impossible()
if INSIDE not in os.environ:
    sys.exit(run_inside())
del sys.argv[1]
unittest.main(verbosity=2)
