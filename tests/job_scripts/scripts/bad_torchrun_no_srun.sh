#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=60
#SBATCH --gpus-per-node=4
module load python
torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$HOSTNAME:0 a.py
# cluster: generic
# expect: script-no-srun 5
# expect: script-buffered 5
