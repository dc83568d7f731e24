#!/bin/bash
#SBATCH -A abc123 -p batch -t 1:00:00 -N 2
#SBATCH --export=NONE
#SBATCH --gpus-per-node=8 --ntasks-per-node=8 -c 7
unset SLURM_EXPORT_ENV
module load miniforge3 rocm
source activate /ccs/proj/abc123/env
export NCCL_SOCKET_IFNAME=hsn0
export MIOPEN_USER_DB_PATH="/tmp/miopen-$SLURM_JOB_ID"
export MIOPEN_CUSTOM_CACHE_DIR="$MIOPEN_USER_DB_PATH"
srun -n16 -c7 --gpus-per-task=1 --gpu-bind=closest /ccs/proj/abc123/env/bin/python -W ignore -u ddp.py
# cluster: frontier
