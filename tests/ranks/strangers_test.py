#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers connect to every port of a running training: they cost it no descriptor, and change none of its numbers."""
import os
import pathlib
import socket
import stat
import unittest

from harness import RanksTest, main

STRANGERS = 200
SETTINGS = ("trainer.max_epochs=30", "observe.log_every=1")


def links(pid):
    """What the descriptors of a process lead to."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            pass
    return found


def sockets(pid):
    """How many of them; a rank opens files for a moment all the time."""
    return sum(link.startswith("socket:") for link in links(pid))


def listening(pids):
    """(address, port) of each listening TCP socket of these processes; the address as /proc writes it."""
    inodes = {link[8:-1] for pid in pids for link in links(pid) if link.startswith("socket:[")}
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.append((address, int(port, 16)))
    return found


class Strangers(RanksTest):
    def test_a_run_does_not_feel_them(self):
        alone = self.trained(*SETTINGS, run="alone")
        command = self.start_train(*SETTINGS, run="visited")
        run = self.folder / "visited"
        command.wait_for_step(run, 5)
        ranks = command.ranks()
        folder = run / ".meeting"
        self.assertEqual([stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "secret")], [0o700, 0o600])
        secret = (folder / "secret").read_bytes()
        ports = listening(command.members())
        self.assertTrue(ports, "the store was not found: the check is blind")
        self.assertEqual({address for address, _ in ports}, {"0100007F"}, "a port on another interface")
        before = {pid: sockets(pid) for pid in ranks.values()}
        for number in range(STRANGERS):
            for _, port in ports:
                try:
                    with socket.create_connection(("127.0.0.1", port), 5) as stranger:
                        stranger.sendall((8).to_bytes(8, "little") if number % 2 else os.urandom(64))
                except OSError:
                    pass  # Refused.
        # All before has been seen by then.
        command.wait_for_step(run, 100)
        self.assertEqual({pid: sockets(pid) for pid in before}, before)
        result = command.finish()
        self.assertEqual(result.code, 0, result.err[-3000:])
        self.assertEqual(result.object["weights_digest"], alone["weights_digest"])
        self.assertFalse(folder.exists(), "the secret was left behind")
        for path in run.rglob("*"):
            if path.is_file():
                self.assertNotIn(secret, path.read_bytes(), path)


if __name__ == "__main__":
    main()
