#!/bin/bash
# somename: 5 nodes of crukci-rocm, 20 tasks, each with 1 device and 10 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=somename
#SBATCH --partition=rocm
#SBATCH --time=02:00:00
#SBATCH --nodes=5
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=10
#SBATCH --mem=96g
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# The conda environment: tasks get it from here, instead of activating it one by one.
eval "$(conda shell.bash hook)"
conda activate /mnt/scratchc/ralab/software/rocm_gpus

# Network and devices, by the profile of crukci-rocm.
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# One task on one node first: a program that is not there, or does not start, fails once, not 20 times.
program=python
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=10 --kill-on-bad-exit=1 \
  /BIN/lockstep exec --cluster crukci-rocm -- \
  "$program" /mnt/scratchc/ralab/atif/path/train_model_multigpus.py || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
