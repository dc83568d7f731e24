#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes this process's launcher variables to a file of its own in dumps/ beside it, then runs its arguments, if any."""
import json
import os
import re
import subprocess
import sys
import tempfile

KEPT = re.compile(
    r"SLURM_(ARRAY_JOB_ID|ARRAY_TASK_ID|GTIDS|HET_SIZE|JOB_GPUS|JOB_ID|JOB_NODELIST|JOB_NUM_NODES|LOCALID|NNODES|NODEID|"
    r"NODELIST|NPROCS|NTASKS|NTASKS_PER_NODE|PROCID|RESTART_COUNT|STEPID|STEP_GPUS|STEP_ID|STEP_NODELIST|STEP_NUM_NODES|"
    r"STEP_NUM_TASKS|STEP_RESV_PORTS|STEP_TASKS_PER_NODE|TASKS_PER_NODE)"
    r"|SLURMD_NODENAME|(CUDA|ROCR|HIP)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL"
    r"|OMPI_COMM_WORLD_\w+|OMPI_MCA_orte_num_nodes|PMIX_(RANK|NAMESPACE)|PMI_(RANK|SIZE|JOBID)|MPI_LOCAL(RANKID|NRANKS)"
    r"|(LOCAL_|GROUP_|ROLE_|NODE_)?RANK|((LOCAL_|GROUP_|ROLE_)?WORLD|LOCAL)_SIZE|MASTER_(ADDR|PORT)"
    r"|TORCHELASTIC_(RUN_ID|RESTART_COUNT|MAX_RESTARTS)|LOCKSTEP_LAUNCHER")

kept = {name: value for name, value in sorted(os.environ.items()) if KEPT.fullmatch(name)}
with tempfile.NamedTemporaryFile("w", dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "dumps"), suffix=".json", delete=False) as file:
    json.dump(kept, file)
if len(sys.argv) > 1:
    subprocess.run(sys.argv[1:], check=True)
