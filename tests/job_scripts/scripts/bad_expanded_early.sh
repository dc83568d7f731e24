#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=60
#SBATCH --gpus-per-node=4
module load python
export RANK=$SLURM_PROCID PYTHONUNBUFFERED=1
srun torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID --master_addr=$(hostname) a.py
# cluster: generic
# expect: script-expanded-early 5
# expect: script-expanded-early 6
