#!/bin/bash
#SBATCH -A b --nodes=1 --time=10 -p dc-gpu
#SBATCH --gres=gpus:4 --ntasks-per-node=4
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-gres-name 3
# expect: script-partition 2
