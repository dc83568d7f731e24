#!/bin/bash
#SBATCH --time=30
#SBATCH --mem=64
module load python
srun python -u a.py
# cluster: generic
# expect: script-memory-low 3
