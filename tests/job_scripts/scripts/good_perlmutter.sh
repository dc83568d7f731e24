#!/bin/bash
#SBATCH -A m1234_g -C gpu -q regular -t 00:30:00 -N 2
#SBATCH --gpus-per-node=4 --ntasks-per-node=4 -c 32
module load pytorch
export NCCL_SOCKET_IFNAME=hsn
srun -c 32 --cpu-bind=cores --gpu-bind=none python -u train.py
# cluster: perlmutter
