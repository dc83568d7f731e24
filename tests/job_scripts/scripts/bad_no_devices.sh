#!/bin/bash
#SBATCH -A b --nodes=1 --time=10 -p booster
#SBATCH --ntasks-per-node=4
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-no-devices 0
