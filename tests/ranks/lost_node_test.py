#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node is switched off: its connections are not closed, they only fall silent. The ranks on other nodes end, and what they hold is saved.

Each node is a network namespace of its own. LOCKSTEP_BIN names the folder of the programs."""
import os
import re
import shutil
import subprocess
import uuid

import harness

SETTINGS = ("trainer.max_epochs=1000000", "trainer.validate_every=0", "trainer.threads=1", "snapshot.every_epochs=0", "snapshot.in_memory=1",
            "observe.log_every=1")
ADDRESSES = ("192.0.2.1", "192.0.2.2")
ENDS_WITHIN_S = 120  # About 25 s on a quiet machine. Without the store's word, Gloo waits for 30 minutes.


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class LostNode(harness.RanksTest):
    def make_nodes(self):
        name = f"lockstep-{uuid.uuid4().hex[:8]}"
        self.nodes = [f"{name}-{rank}" for rank in range(2)]
        try:
            for node in self.nodes:
                ip("netns", "add", node)
                self.addCleanup(ip, "netns", "delete", node)
            ip("link", "add", "link0", "netns", self.nodes[0], "type", "veth", "peer", "name", "link0", "netns", self.nodes[1])
            for node, address in zip(self.nodes, ADDRESSES):  # In a chroot, ip cannot enter a network that it made.
                ip("-netns", node, "address", "add", f"{address}/24", "dev", "link0")
                for device in ("link0", "lo"):
                    ip("-netns", node, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            self.skipTest(f"this machine makes no networks of its own: {error.stderr.strip()}")

    def start_task(self, rank):
        run = self.folder / "run"
        run.mkdir(exist_ok=True)
        env = {"LOCKSTEP_RUN_DIR": str(run), "TMPDIR": str(self.folder),
               "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": "0",
               "SLURM_NODEID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
               "SLURM_STEP_NODELIST": ",".join(ADDRESSES)}
        lockstep = harness.BIN / "lockstep"
        sets = [word for each in SETTINGS for word in ("--set", each)]
        self.commands.append(harness.Command(
            ["ip", "netns", "exec", self.nodes[rank], lockstep, "exec", "--cluster", "generic", "--no-bind", "--no-agent", "--stay", "--heal",
             "100:120", "--", lockstep, "train", harness.DIGITS, "--run-dir", run, "--resume", "auto", *sets], self.folder, env))
        return self.commands[-1]

    def start_both(self):
        self.make_nodes()
        first, second = [self.start_task(rank) for rank in range(2)]
        first.wait_for_step(self.folder / "run", 50)
        # A parent opens its lasting connection within the first seconds of the training.
        first.wait_until(lambda: self.has_asked(second), "rank 1's parent had asked the store")
        return first, second

    def test_the_ranks_on_other_nodes_end(self):
        first, second = self.start_both()
        reached = max(line["step"] for line in harness.metrics(self.folder / "run") if line["event"] == "step")
        ip("-netns", self.nodes[1], "link", "set", "link0", "down")
        ended = first.finish(ENDS_WITHIN_S)
        second.kill_all()
        self.assertEqual(ended.code, harness.PEER_LOST, ended.err[-3000:])
        self.assertIn("which was held in memory, is now in", ended.err)
        steps = [int(name.removeprefix("step-")) for name in harness.snapshots(self.folder / "run")]
        self.assertGreaterEqual(max(steps), reached - 1, "the state that is held is at most one step behind")

    def test_the_other_ranks_end_if_it_is_the_node_of_the_store(self):
        first, second = self.start_both()
        ip("-netns", self.nodes[0], "link", "set", "link0", "down")
        ended = second.finish(ENDS_WITHIN_S)
        first.kill_all()
        self.assertEqual(ended.code, harness.PEER_LOST, ended.err[-3000:])

    def has_asked(self, command):
        """True if the command's first process, the parent of its rank, has an answer of the store after the 60 bytes of the handshake."""
        told = subprocess.run(["ip", "netns", "exec", self.nodes[1], "ss", "--tcp", "--processes", "--info", "--oneline", "--no-header"],
                              check=True, text=True, capture_output=True).stdout
        of_parent = [line for line in told.splitlines() if f"pid={min(command.members())}," in line]
        return any(int(count) > 60 for count in re.findall(r"bytes_received:(\d+)", " ".join(of_parent)))


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        print("skipped: network namespaces need root and the program `ip` (apt-get install iproute2)")
        raise SystemExit(harness.SKIPPED)
    harness.main()
