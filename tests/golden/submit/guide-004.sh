#!/bin/bash
# train_ddp_cifar100: 1 node of lumi-g, 2 tasks, each with 1 device and 7 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=train_ddp_cifar100
#SBATCH --account=project_462000956
#SBATCH --partition=small-g
#SBATCH --time=00:30:00
#SBATCH --nodes=1
#SBATCH --gpus-per-node=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=7
#SBATCH --mem=120G
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# Software.
module purge
module load LUMI partition/G

# Network and devices, by the profile of lumi-g.
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# One task on one node first: a program that is not there, or does not start, fails once, not 2 times.
program=python
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=7 --kill-on-bad-exit=1 \
  /BIN/lockstep exec --cluster lumi-g -- \
  "$program" train_ddp_cifar100.py || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
