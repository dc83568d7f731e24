#!/bin/bash
#SBATCH -A m1_g -C gpu -q regular -t 30 -N 1
#SBATCH --gpus-per-task=1 --ntasks-per-node=4
module load pytorch
srun python -u a.py
# cluster: perlmutter
# expect: script-hidden-peers 5
