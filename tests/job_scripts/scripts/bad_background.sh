#!/bin/bash
#SBATCH --time=60 --ntasks=2 --gpus-per-node=2
module load python
export MASTER_PORT=29500
srun -n1 --gpus-per-node=1 python -u a.py &
srun -n1 --gpus-per-node=1 python -u b.py &
# cluster: generic
# expect: script-no-wait 5
# expect: script-no-wait 6
# expect: script-several-launches 6
# expect: script-fixed-port 4
