#!/bin/bash
#SBATCH --time=10
module load python
srun python -u a.py
# cluster: generic
# expect: script-dos-lines 1
