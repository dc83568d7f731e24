#!/bin/bash
# mnist: 4 nodes of lumi-g, 32 tasks, each with 1 device and 7 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=mnist
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --time=00:30:00
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --mem=480G
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --signal=USR1@180
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

# One task on one node first: a program that is not there, or does not start, fails once, not 32 times.
program=/BIN/lockstep
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  "$program" --version > /dev/null || {
  echo "lockstep: error: '$program' was not found, or does not start, on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=7 --kill-on-bad-exit=1 \
  --cpu-bind=mask_cpu:0x00fe000000000000,0xfe00000000000000,0x0000000000fe0000,0x00000000fe000000,0x00000000000000fe,0x000000000000fe00,0x000000fe00000000,0x0000fe0000000000 \
  /BIN/lockstep exec --cluster lumi-g -- \
  "$program" train /RECIPES/mnist.toml --run-dir "$LOCKSTEP_RUN_DIR" --set data.path=/scratch/project_465000001/mnist --set cluster.nodes=4 || status=$?

# 75: the time was up and a snapshot is written. The run goes on from it in the next job.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
