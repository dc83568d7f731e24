#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins the dumps of one launch with the placement that its command line asks for: collect DUMPS OUT SOURCE LAYOUT DEVICE COMMAND.

LAYOUT lists the ranks of each node in the order of local ranks, '0,1|2'. DEVICE is none, zero, or local (the local rank).
"""
import glob
import json
import sys

RANK_NAME = {"slurm": "SLURM_PROCID", "openmpi": "OMPI_COMM_WORLD_RANK", "pmi": "PMI_RANK", "torchrun": "RANK", "lockstep": "RANK"}


def expected_placements(source, layout, device):
    nodes = [[int(rank) for rank in node.split(",")] for node in layout.split("|")]
    world = sum(len(node) for node in nodes)
    for node_rank, ranks in enumerate(nodes):
        for local_rank, rank in enumerate(ranks):
            yield {"rank": rank, "world": world, "local_rank": local_rank, "local_world": len(ranks),
                   "node_rank": node_rank, "nodes": len(nodes), "source": source,
                   "device": {"none": None, "zero": 0, "local": local_rank}[device]}


def main():
    dumps, out, source, layout, device, command = sys.argv[1:]
    found = [json.load(open(path)) for path in glob.glob(dumps + "/*.json")]
    expected = sorted(expected_placements(source, layout, device), key=lambda placement: placement["rank"])
    if len(found) != len(expected):
        sys.exit(f"{out}: {len(found)} processes were dumped, want {len(expected)}")
    if source in RANK_NAME:
        found.sort(key=lambda environment: int(environment[RANK_NAME[source]]))
    ranks = [{"environment": e, "expected": p} for e, p in zip(found, expected)]
    with open(out, "w") as file:
        json.dump({"command": command, "recorded": True, "ranks": ranks}, file, indent=1)
        file.write("\n")


main()
