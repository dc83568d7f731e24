#!/bin/bash
#SBATCH --time=60
#SBATCH --output=no-such-folder/%j.out
module load python
srun python -u a.py
# cluster: generic
# expect: script-output-folder 3
