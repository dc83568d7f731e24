#!/bin/bash
# pytorch_ddp: 2 nodes of frontier, 16 tasks, each with 1 device and 7 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=pytorch_ddp
#SBATCH --account=abc123
#SBATCH --partition=batch
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --export=NONE
#SBATCH --network=disable_rdzv_get

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# Software.
module load PrgEnv-gnu/8.7.0 cpe/26.03 miniforge3/23.11.0-0 rocm/7.1.1 rccl-net-plugin craype-accel-amd-gfx90a
export LD_LIBRARY_PATH=$CRAY_LD_LIBRARY_PATH:${LD_LIBRARY_PATH:-}

# The conda environment: tasks get it from here, instead of activating it one by one.
eval "$(conda shell.bash hook)"
conda activate /path/to/my_env

# Network and devices, by the profile of frontier.
export FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=2048
export FI_CXI_DISABLE_HOST_REGISTER=1
export FI_CXI_RDZV_EAGER_SIZE=0
export FI_CXI_RDZV_GET_MIN=0
export FI_CXI_RDZV_PROTO=alt_read
export FI_CXI_RDZV_THRESHOLD=0
export FI_CXI_RX_MATCH_MODE=hybrid
export FI_MR_CACHE_MONITOR=kdreg2
export HSA_FORCE_FINE_GRAIN_PCIE=1
export NCCL_CROSS_NIC=1
export NCCL_NET=OFI
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# One task on one node first: a program that is not there, or does not start, fails once, not 16 times.
program=/path/to/my_env/bin/python
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none --export=ALL \
  "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=7 --export=ALL --kill-on-bad-exit=1 --gpus-per-task=1 --gpu-bind=closest \
  /BIN/lockstep exec --cluster frontier -- \
  "$program" pytorch_ddp.py 2000 10 || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
