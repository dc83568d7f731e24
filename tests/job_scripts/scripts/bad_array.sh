#!/bin/bash
#SBATCH --time=60 --array=1-10
#SBATCH --output=out.txt
module load python
srun python -u train.py $SLURM_ARRAY_TASK_ID
# cluster: generic
# expect: script-array-output 3
