#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:4 --ntasks-per-node=4 -p booster
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-no-account 0
# expect: script-no-time 0
