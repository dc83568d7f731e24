#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the ten lines of docs/day-one/your-cluster.md, as a new user would, on a bed that is drawn by a seed: walk.py LOCKSTEP SEED

The seed "page" is the page's own bed. Prints what the bed is, each line with its time, and what it said. Ends with 1 at the first line that fails.
"""
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import bed as test_bed

PAGES_OWN = {"cluster": "ours", "cores": 2, "plain_nodes": 2, "gpus": 2, "gpu_type": "a100",
             "partitions": "PartitionName=cpu Nodes=n[1-2] Default=YES MaxTime=2-00:00:00 DefaultTime=00:30:00 State=UP\n"
                           "PartitionName=a100 Nodes=n[3-4] MaxTime=1-00:00:00 MaxNodes=2 OverSubscribe=EXCLUSIVE State=UP"}
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/day-one/your-cluster.md"


def drawn(seed):
    """What the bed is like. Its nodes have no more cores than this machine: `check --live` would find that."""
    dice = random.Random(seed)
    sockets, cores, threads = dice.choice([each for each in ((1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 1, 2), (1, 4, 1), (2, 2, 1), (2, 1, 2))
                                           if math.prod(each) <= (os.cpu_count() or 1)])
    shape = {"cluster": dice.choice(("Hydra", "c3po", "deep-thought", "nibi2")), "name": dice.choice(("n", "nid00", "gpu-", "c1-")),
             "nodes": dice.choice((2, 3, 5)), "sockets": sockets, "cores": cores, "threads": threads,
             "gpus": dice.randint(0, sockets * cores), "gpu_type": dice.choice(("", "l40s", "mi210", "rtx_6000", "h200"))}
    name, nodes = shape["name"], shape["nodes"]
    plain = dice.choice((0, 0, 1)) if shape["gpus"] and nodes > 2 else 0
    shape["plain_nodes"] = plain
    shape["select"] = dice.choice(("CR_Core", "CR_Core_Memory", "CR_CPU_Memory"))
    rules = dice.choice(("", " DefMemPerCPU=50", " DefMemPerCPU=100 MaxMemPerCPU=2000")) if "Memory" in shape["select"] else ""
    main = f"{name}[{plain + 1}-{nodes}]"
    default = dice.choice((" Default=YES", ""))
    lines = [f"PartitionName={dice.choice(('accel', 'batch', 'ml.q', 'GPU-long'))} Nodes={main}{default} MaxTime={dice.choice(('UNLIMITED', '12:00:00', '2-0'))}"
             f"{dice.choice(('', ' DefaultTime=00:10:00', ' OverSubscribe=EXCLUSIVE'))}{rules} State=UP"]
    if dice.random() < .6:
        lines.append(f"PartitionName=debug Nodes={main} MaxTime=00:30:00 MaxNodes=1{rules} State=UP")
    if plain:
        lines.append(f"PartitionName=serial Nodes={name}[1-{plain}] State=UP{'' if default else ' Default=YES'}")
    dice.shuffle(lines)
    shape["partitions"] = "\n".join(lines)
    return shape


def typed_lines():
    block, = re.findall(r"## Ten lines\n\n((?:    \$ .*\n)+)", PAGE.read_text())
    return [line.strip().removeprefix("$ ") for line in block.splitlines()]


def main():
    lockstep, seed = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    test_bed.skip_where_impossible()
    shape = PAGES_OWN if seed == "page" else drawn(int(seed))
    print(f"seed {seed}: " + ", ".join(f"{key} {value!r}" for key, value in shape.items()), flush=True)
    with test_bed.Bed(**shape) as bed, tempfile.TemporaryDirectory(prefix="lockstep walk ") as home:
        tools = pathlib.Path(home, "bin")
        tools.mkdir()
        (tools / "lockstep").symlink_to(lockstep)
        # No driver stands behind the bed's devices.
        env = bed.environment | {"HOME": home, "PATH": f"{tools}:{bed.environment['PATH']}", "LOCKSTEP_DOCTOR": "off"}
        env = {name: value for name, value in env.items() if not name.startswith("XDG_")}
        began = time.monotonic()
        for line in typed_lines():
            start = time.monotonic()
            done = subprocess.run(["sh", "-c", line], cwd=home, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
            print(f"[{time.monotonic() - start:6.2f} s] $ {line}\n" + "".join(f"    {each}\n" for each in done.stdout.replace(home, "~").splitlines()), flush=True)
            if done.returncode != 0:
                print(f"ended with {done.returncode}")
                profiles = list(pathlib.Path(home, ".config/lockstep/profiles").glob("*.toml"))
                print("\n".join(path.read_text() for path in profiles), bed.run("scontrol", "show", "node", "--oneliner"), bed.run("sinfo", "-l"))
                return 1
        print(f"[{time.monotonic() - began:6.2f} s] in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
