#!/bin/bash
#SBATCH --time=1:00:00
if [ -d venv ]; then source venv/bin/activate; else exit 1; fi
nvidia-smi
srun hostname
python -u train.py
# cluster: generic
