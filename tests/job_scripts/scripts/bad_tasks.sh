#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --ntasks=4 --time=60
#SBATCH --gpus-per-node=4
module load python
srun python -u a.py
# cluster: generic
# expect: script-tasks-conflict 2
# expect: script-tasks-devices 5
