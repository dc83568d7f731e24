#!/bin/bash
#SBATCH --account=mybudget --partition=booster --nodes=4 --gres=gpu:4
#SBATCH --ntasks-per-node=1 --cpus-per-task=48 --time=06:00:00 --threads-per-core=1
source env/bin/activate
export NCCL_SOCKET_IFNAME=ib0
export PYTHONUNBUFFERED=1
export MASTER_ADDR="$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)i"
srun --cpus-per-task=48 bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=4 --node_rank=$SLURM_NODEID \
  --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29400 train.py'
# cluster: juwels-booster
