#!/bin/bash
#SBATCH --account=MY_BUDGET --partition=boost_usr_prod --nodes=1
#SBATCH --gres=gpu:4 --ntasks-per-node=4 --cpus-per-task=8 --mem=494000 --time=1:00:00
srun --cpus-per-task=8 singularity exec --nv -B $WORK:/data image.sif python -u /data/train.py
# cluster: leonardo
