#!/bin/bash
# mnist_DDP: 4 nodes of lumi-g, 32 tasks, each with 1 device and 7 cores.
# Written by `lockstep submit`; `sbatch /FOLDER/run/job.sh` runs it again.
#SBATCH --job-name=mnist_DDP
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --time=00:10:00
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --mem=480G
#SBATCH --chdir=/FOLDER
#SBATCH --output=/FOLDER/run/logs/job.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -eo pipefail
echo "== job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)), on $SLURM_JOB_NODELIST, $(date -Is)"

# Software.
module purge
module use /appl/local/laifs/modules
module load lumi-aif-singularity-bindings

# Network and devices, by the profile of lumi-g.
export NCCL_NET_GDR_LEVEL=PHB
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# Where this run's logs and snapshots lie, for lockstep and for the program.
export LOCKSTEP_RUN_DIR=/FOLDER/run

# Into the container goes nothing of the Python, and none of the libraries, outside.
for name in $(compgen -e); do
  case $name in CONDA_* | _CE_* | PYTHON* | VIRTUAL_ENV* | LD_LIBRARY_PATH | LD_PRELOAD) unset "$name" ;; esac
done
container=(
  singularity exec
  -B /var/spool/slurmd
  -B /opt/cray
  -B /usr/lib64/libcxi.so.1
  -B /usr/lib64/libjansson.so.4
  -B /project/project_465000001/me:/workdir
  -B /FOLDER
  -B /BIN
  /project/project_465000001/me/your-container-image.sif
)

# What each task runs in the container before its program.
setup=$(cat << 'SETUP'
set -e
$WITH_CONDA
cd /workdir/mnist
exec "$@"
SETUP
)

# One task on one node first: a program that is not there, or does not start, fails once, not 32 times.
program=python
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none \
  "${container[@]}" bash -c "$setup" task "$program" -c '' || {
  echo "lockstep: error: '$program' was not found, or does not start, in the container on the compute node" >&2
  echo "  hint: name it by its full path there, or load what it needs in [cluster] setup or modules" >&2
  exit 4
}

# The tasks, each with its rank, device, cores and caches from `lockstep exec`.
status=0
srun --cpus-per-task=7 --kill-on-bad-exit=1 \
  --cpu-bind=mask_cpu:0x00fe000000000000,0xfe00000000000000,0x0000000000fe0000,0x00000000fe000000,0x00000000000000fe,0x000000000000fe00,0x000000fe00000000,0x0000fe0000000000 \
  "${container[@]}" /BIN/lockstep exec --cluster lumi-g -- bash -c "$setup" task \
  "$program" -u mnist_DDP.py --gpu --modelpath model || status=$?

# 75: the program asks to be started again.
if [ "$status" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
