#!/bin/bash
#SBATCH -A mybudget -p booster
#SBATCH -N 2 --gres=gpu:4
#SBATCH --ntasks-per-node=4 -c 12
#SBATCH -t 1-00:00:00 --threads-per-core=1
#SBATCH --mem=900G
source env/bin/activate
export NCCL_SOCKET_IFNAME=ib0
srun -c 12 python -u a.py
# cluster: juwels-booster
# expect: script-memory-over 6
