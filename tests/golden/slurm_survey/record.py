#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what Slurm's commands print on a bed with several kinds of nodes, beside this file. Recorded with slurm-wlm 22.05.8."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "slurm"))
import bed as test_bed  # noqa: E402

PARTITIONS = """PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=2-00:00:00 DefaultTime=00:30:00 State=UP
PartitionName=a100 Nodes=n[3-4] MaxTime=1-00:00:00 MaxNodes=2 OverSubscribe=EXCLUSIVE TRESBillingWeights=CPU=1.0,Mem=0.25G State=UP
PartitionName=closed Nodes=n[3-4] AllowAccounts=staff MaxTime=UNLIMITED State=UP"""
ASKED = {"config": "config", "partitions": "partition --oneliner", "nodes": "node --oneliner"}

with test_bed.Bed(cluster="Recorded", sockets=2, cores=4, threads=2, gpu_type="a100", plain_nodes=2, partitions=PARTITIONS) as bed:
    for name, words in ASKED.items():
        (HERE / f"{name}.txt").write_text(bed.run("scontrol", "show", *words.split()))
