# SPDX-License-Identifier: Apache-2.0
"""Writes where this process is, into a file of its own: say.py FOLDER [WORDS…]. Stands for a training script."""
import json
import os
import pathlib
import sys

NAMES = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES "
         "OMP_NUM_THREADS SLURMD_NODENAME PYTHON_IS SLURM_CPUS_PER_TASK SLURM_JOB_ACCOUNT DEVICE_LIBRARY").split()
said = {name: os.environ[name] for name in NAMES if name in os.environ}
said["cpus"] = sorted(os.sched_getaffinity(0))
said["has_device_library"] = os.path.exists(os.environ.get("DEVICE_LIBRARY", ""))
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True, parents=True)
said["environment"] = dict(os.environ)
(folder / f"rank-{said.get('RANK', '')}.json").write_text(json.dumps(said))
