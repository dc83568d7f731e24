#!/bin/bash
#SBATCH -A abc123 -p batch -t 1:00:00 -N 2
#SBATCH --export=NONE
#SBATCH --gpus-per-node=8 --ntasks-per-node=8 -c 7

module load miniforge3 rocm
source activate /ccs/proj/abc123/env
srun torchrun train.py
# cluster: frontier
# expect: script-nested-launcher 8
# expect: script-launcher-nodes 8
# expect: script-tasks-devices 8
# expect: script-export-none 8
# expect: script-cache-unset 8
# expect: script-no-interface 8
# expect: script-srun-cores 8
# expect: script-buffered 8
