#!/bin/bash
#SBATCH --time=60 --gpus-per-node=1
srun python train.py
# cluster: generic
# expect: script-python-unset 3
# expect: script-buffered 3
