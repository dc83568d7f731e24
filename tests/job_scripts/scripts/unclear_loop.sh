#!/bin/bash
#SBATCH --time=60
module load python
for lr in 0.1 0.01; do
  srun python -u a.py --lr $lr
done
eval "$COMMAND"
if [ -n "$AGAIN" ]; then srun python -u a.py; fi
# cluster: generic
# expect: script-not-understood 5
# expect: script-not-understood 7
# expect: script-not-understood 8
# expect: script-several-launches 8
