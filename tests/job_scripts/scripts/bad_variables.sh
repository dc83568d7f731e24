#!/bin/bash
#SBATCH -A mybudget -p booster
#SBATCH -N 2 --gres=gpu:4
#SBATCH --ntasks-per-node=4 -c 12
#SBATCH -t 1-00:00:00 --threads-per-core=1
source env/bin/activate
export NCCL_SOCKET_IFNAME=eth0
OMP_NUM_THREADS=12
export CUDA_LAUNCH_BLOCKING=1
srun -c12 python -u a.py
# cluster: juwels-booster
# expect: script-not-exported 8
# expect: script-other-interface 7
# expect: variable-launch-blocking 9
