#!/bin/bash
#SBATCH -A b --time=1:00:00 -p develbooster --nodes=32
#SBATCH --gres=gpu:4 --ntasks-per-node=4
source env/bin/activate
srun python -u a.py
# cluster: juwels-booster
# expect: script-too-many-nodes 2
# expect: script-no-interface 5
