#!/bin/bash
#SBATCH -A b --time=1:00:00 -p booster --nodes=1
#SBATCH --gres=gpu:1 --ntasks-per-node=1
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-whole-node 3
