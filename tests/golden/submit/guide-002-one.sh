#!/bin/bash
# one_gpu: 1 node of juwels-booster, 1 task with 1 device and 12 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=one_gpu
#SBATCH --account=training2321
#SBATCH --partition=booster
#SBATCH --time=00:15:00
#SBATCH --nodes=1
#SBATCH --gres=gpu:1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=12
#SBATCH --mem=0
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --threads-per-core=1

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# Software.
module --force purge
module load Stages/2025 GCC OpenMPI CUDA/12 cuDNN MPI-settings/CUDA Python HDF5

# Network and devices, by the profile of juwels-booster.
export GLOO_SOCKET_IFNAME=ib0
export NCCL_IB_RETRY_CNT=10
export NCCL_IB_TIMEOUT=50
export NCCL_SOCKET_IFNAME=ib0
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1
export UCX_RC_TIMEOUT=4s

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# What each task runs before its program.
setup=$(cat << 'SETUP'
set -e
source ../sc_venv_template/activate.sh
exec "$@"
SETUP
)

# One task on one node first: a program that is not there, or does not start, fails once.
program=python3
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  bash -c "$setup" task "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=12 --kill-on-bad-exit=1 --threads-per-core=1 \
  /BIN/lockstep exec --cluster juwels-booster -- bash -c "$setup" task \
  "$program" one_gpu.py || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
