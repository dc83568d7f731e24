#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes task_environments.json: what `lockstep exec` must give each rank of the recorded launches.

For each launch in environments/, a row for each rank: RANK, WORLD_SIZE, LOCAL_RANK, device, MASTER_PORT. The first four are what
the command line asks for (`expected` there). The port follows docs/cluster/exec.md, read here a second time: one that the launcher or the
script gave; else the last that Slurm reserved; else "derived" from the start's name; else "free" for one process, and "refused" for
several that have nothing to agree by.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
# For each source, the variable that names the start if no scheduler does. Hydra and jsrun have no such variable.
NAMES = {"openmpi": "PMIX_NAMESPACE", "pmi": "PALS_APID", "lsf": None}


def port(environment, placement):
    if environment.get("MASTER_PORT"):
        return int(environment["MASTER_PORT"])
    if placement["source"] == "slurm" and environment.get("SLURM_STEP_RESV_PORTS"):
        return int(environment["SLURM_STEP_RESV_PORTS"].replace("-", ",").split(",")[-1])
    if placement["source"] == "single":
        return "free"
    if placement["source"] in NAMES and NAMES[placement["source"]] not in environment:
        return "refused" if placement["world"] > 1 else "free"
    return "derived"


def main():
    table = {}
    for path in sorted((HERE / "environments").glob("*.json")):
        ranks = json.loads(path.read_text())["ranks"]
        table[path.stem] = [[p["rank"], p["world"], p["local_rank"], p["device"], port(rank["environment"], p)]
                            for rank in ranks for p in [rank["expected"]]]
    lines = [f" {json.dumps(name)}: {json.dumps(rows)}" for name, rows in table.items()]
    (HERE / "task_environments.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
