#!/bin/bash
#SBATCH -A abc123 -p batch -t 1:00:00 -N 1
#SBATCH --gpus-per-node=8 --ntasks-per-node=8 -c 7
module load miniforge3 rocm
export MIOPEN_USER_DB_PATH="/tmp/miopen-$SLURM_JOB_ID"
export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"

srun -c7 python -u ddp.py
# cluster: frontier
# expect: script-no-gpu-bind 8
