#!/bin/bash
#SBATCH -A mybudget -p booster
#SBATCH -N 2 --gres=gpu:4
#SBATCH --ntasks-per-node=4 -c 12
#SBATCH -t 1-00:00:00 --threads-per-core=1
source env/bin/activate
export NCCL_SOCKET_IFNAME=ib0
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
export PYTHONUNBUFFERED=1
srun python train.py
# cluster: juwels-booster
