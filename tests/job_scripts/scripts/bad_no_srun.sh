#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --time=60
#SBATCH --gpus-per-node=4
module load python
python -u a.py
# cluster: generic
# expect: script-no-srun 5
