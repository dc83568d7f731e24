#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/measured/launch-lines.md: every launch line of launch_lines.py, what Lockstep makes of it, and what Lightning makes of the
environments that the same line gives its tasks: launch_lines_table.py LIGHTNING_PYTHON [OUT]. LOCKSTEP_BIN as in the tests."""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import bed as test_bed
from launch_lines import LINES, SAY, check, lockstep_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin")) / "lockstep"

# Each task writes a file, since an environment is longer than the output that Slurm passes on in one piece.
DUMP = """import json, os, pathlib
pathlib.Path(f"task-{os.environ.get('SLURM_PROCID', '0')}.json").write_text(json.dumps(dict(os.environ)))
"""


def lockstep_says(bed, line, folder):
    try:
        output = line.run(bed, lockstep_program(LOCKSTEP, sys.executable), folder)
    except AssertionError as refusal:
        return f"refused: {line.says}" if line.says and line.says in str(refusal) else "**fails**"
    try:
        check(unittest.TestCase(), line, output)
    except AssertionError as difference:
        return f"**wrong**: {str(difference).splitlines()[0]}"
    return "right"


def tasks_of(bed, line, folder):
    """The environment that each task has of the line, by rank, with the sizes that a Trainer must be told."""
    for old in folder.glob("task-*.json"):
        old.unlink()
    line.run(bed, [sys.executable, "dump.py"], folder)
    environments = [json.loads((folder / f"task-{rank}.json").read_text()) for rank in range(len(line.where))]
    nodes, devices = len(set(line.where)), max(line.where.count(node) for node in line.where)
    return [{"nodes": nodes, "devices": devices, "env": env} for env in environments]


def lightning_says(line, ranks):
    refusals = sorted({rank["refused"] for rank in ranks if "refused" in rank})
    if refusals:
        return "refused: " + " ".join(refusals[0].split())[:160]
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK")
    found = [tuple(rank[name] for name in names) for rank in ranks]
    wanted = [(rank, world, local_rank, node_rank) for rank, world, local_rank, _, node_rank in line.places()]
    if found == wanted:
        return "right"
    worlds = {rank["WORLD_SIZE"] for rank in ranks}
    return f"**wrong**: {len(ranks)} processes, " + ("each a world of one" if worlds == {1} else f"worlds of {sorted(worlds)}, ranks {[at[0] for at in found]}")


def main():
    python, out = sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/measured/launch-lines.md")
    with tempfile.TemporaryDirectory() as name, test_bed.Bed() as bed:
        folder = pathlib.Path(name)
        (folder / "say.py").write_text(SAY)
        (folder / "dump.py").write_text(DUMP)
        ours, tasks = [], []
        for line in LINES:
            ours.append(lockstep_says(bed, line, folder))
            tasks.append(tasks_of(bed, line, folder))
            print(f"{len(ours)} of {len(LINES)}: {ours[-1]}: {line.text}", file=sys.stderr)
    answer = subprocess.run([python, pathlib.Path(__file__).with_name("lightning_lines.py")], input=json.dumps(tasks), text=True,
                            stdout=subprocess.PIPE, check=True)
    theirs = [lightning_says(line, ranks) for line, ranks in zip(LINES, json.loads(answer.stdout))]
    version = subprocess.run([python, "-c", "import lightning; print(lightning.__version__)"], text=True, capture_output=True, check=True)
    rows = [f"| `{line.text.replace('PROGRAM', '…').replace('|', chr(92) + '|')}` | {line.where} | {line.sees} | {mine} | {other} |"
            for line, mine, other in zip(LINES, ours, theirs)]
    counts = [sum(cell == "right" for cell in cells) for cells in (ours, theirs)]
    out.write_text(f"""# Launch lines

Ways to ask Slurm for tasks, cores and devices, and what becomes of them. `ranks` has a digit for each rank: the node that it is on.
`devices` is what a task is shown: none, its own, or all of its node's. *right* means: every rank has the right rank, world, local
rank and node rank (of Lockstep also: device, and one address and port for all). `lockstep exec` and `lockstep train` take the lines
in `tests/slurm`; Lightning {version.stdout.strip()} was asked for the ranks that it sees in the environments of the same lines, with
`Trainer(num_nodes=, devices=)` told the line's nodes and most tasks a node. Right: Lockstep {counts[0]}, Lightning {counts[1]} of {len(LINES)}.
`tests/slurm/launch_lines_table.py` wrote this page on {datetime.date.today()}, under a real Slurm of four nodes with four devices each.

| line | ranks | devices | Lockstep | Lightning |
|---|---|---|---|---|
""" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
