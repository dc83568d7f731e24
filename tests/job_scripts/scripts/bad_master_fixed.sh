#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --time=60
#SBATCH --gpus-per-node=4
module load python
export MASTER_ADDR=gpu017
srun python -u a.py
# cluster: generic
# expect: script-master-address 5
