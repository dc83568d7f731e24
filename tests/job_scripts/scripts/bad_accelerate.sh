#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=60
#SBATCH --gpus-per-node=4
module load python
export PYTHONUNBUFFERED=1
srun accelerate launch --multi_gpu --nproc_per_node 2 a.py
# cluster: generic
# expect: script-launcher-nodes 6
# expect: script-tasks-devices 6
