#!/bin/bash
#SBATCH --account=<your_budget> --time=10 -p booster --nodes=1
#SBATCH --gres=gpu:4 --ntasks-per-node=4
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-placeholder 2
