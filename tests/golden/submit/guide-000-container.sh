#!/bin/bash
# train_model: 3 nodes of crukci-rocm, 3 tasks, each with 1 device and 10 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=train_model
#SBATCH --partition=rocm
#SBATCH --time=01:00:00
#SBATCH --nodes=3
#SBATCH --gres=gpu:1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=10
#SBATCH --mem=24g
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# Network and devices, by the profile of crukci-rocm.
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# Into the container goes nothing of the Python, and none of the libraries, outside.
for name in $(compgen -e); do
  case $name in CONDA_* | _CE_* | PYTHON* | VIRTUAL_ENV* | LD_LIBRARY_PATH | LD_PRELOAD) unset "$name" ;; esac
done
container=(
  singularity exec
  -B /mnt/scratchc/ralab/atif:/mnt
  -B /FOLDER
  -B /BIN
  /FOLDER/pytorch_rocm6.2.3_ubuntu22.04_py3.10_pytorch_release_2.3.0.sif
)

# One task on one node first: a program that is not there, or does not start, fails once, not 3 times.
program=python
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  "${container[@]}" "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, in the container on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=10 --kill-on-bad-exit=1 \
  "${container[@]}" /BIN/lockstep exec --cluster crukci-rocm -- \
  "$program" /mnt/train_model.py || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
