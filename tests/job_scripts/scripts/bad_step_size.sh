#!/bin/bash
#SBATCH --time=60 --nodes=2
module load python
srun -N 4 python -u a.py
# cluster: generic
# expect: script-step-too-large 4
