#!/bin/bash
#SBATCH -A b --nodes=1 --time=10 -p booster
#SBATCH --gpus-per-node=8 --ntasks-per-node=8
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-too-many-devices 3
