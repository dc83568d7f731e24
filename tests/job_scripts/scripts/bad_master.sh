#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --time=60
#SBATCH --gpus-per-node=4
module load python
export MASTER_ADDR=localhost
export MASTER_PORT=29500
srun python -u a.py
# cluster: generic
# expect: script-master-address 5
# expect: script-fixed-port 6
