#!/bin/bash
#SBATCH --time=60
module load python
echo "never closed
srun python -u a.py
# cluster: generic
# expect: script-not-understood 4
# expect: script-no-launch 0
