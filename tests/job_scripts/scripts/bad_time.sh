#!/bin/bash
#SBATCH -A b --time=2-12 -p booster --nodes=1
#SBATCH --gres=gpu:4 --ntasks-per-node=4
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-time-over 2
