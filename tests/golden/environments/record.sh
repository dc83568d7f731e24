#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Records the environments that real launchers give to their processes. Writes one file for each launch beside this script.
#   LOCKSTEP=build/release/bin/lockstep TORCHRUN=/path/to/torchrun HYDRA=/path/to/mpiexec.hydra record.sh [NAME_PATTERN]
# Needs root, slurm-wlm, munge, openmpi-bin, a PyTorch, and MPICH's Hydra, whose package need only be unpacked. The placement beside
# each environment is written by hand from the command line, as a list of ranks for each node. No program that reads the
# environment makes it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pattern=${1:-*}
lockstep=$(realpath "${LOCKSTEP:?the lockstep program}")
torchrun=$(realpath -s "${TORCHRUN:?a torchrun}")
hydra=$(realpath -s "${HYDRA:?an mpiexec.hydra}")
bed=$(mktemp -d /tmp/environments.XXXXXX)
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin SLURM_CONF=$bed/slurm.conf
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
dump=$bed/dump
cp "$here/dump_environment.py" "$dump"
trap '"$here/../../slurm/testbed.sh" down "$bed"; rm -rf "$bed"' EXIT
"$here/../../slurm/testbed.sh" up "$bed" "${BASE_PORT:-18300}"

# Prints the command as a reader would type it, without this machine's paths.
shown() { printf '%s' "$*" | sed -e "s#$dump#DUMP#g; s#$lockstep#lockstep#g; s#$torchrun#torchrun#g; s#$hydra#mpiexec.hydra#g; s#$bed#DIR#g"; }

# record NAME SOURCE LAYOUT DEVICE COMMAND…: records one launch.
record() {
  local name=$1 source=$2 layout=$3 device=$4
  shift 4
  # shellcheck disable=SC2254  # a pattern is meant
  case $name in $pattern) ;; *) return 0 ;; esac
  rm -rf "$bed/dumps" && mkdir "$bed/dumps"
  "$@" > "$bed/output" 2>&1 || { echo "$name failed:"; cat "$bed/output"; return 1; }
  python3 "$here/collect_environments.py" "$bed/dumps" "$here/$name.json" "$source" "$layout" "$device" "$(shown "$@")"
  echo "$name"
}

batch() { # batch FLAGS… -- SCRIPT_TEXT: sbatch --wait with the text as the script's body
  local flags=()
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  printf '#!/bin/bash\n%s\n' "$2" > "$bed/job.sh"
  sbatch --wait --parsable -o "$bed/job-%j.out" "${flags[@]}" "$bed/job.sh"
}

# Job steps outside an allocation.
record srun-one slurm 0 none srun -n1 "$dump"
record srun-two-nodes slurm '0|1' none srun -N2 -n2 "$dump"
record srun-one-node slurm 0,1,2,3 none srun -N1 -n4 "$dump"
record srun-two-by-two slurm '0,1|2,3' none srun -N2 --ntasks-per-node=2 "$dump"
record srun-uneven slurm '0,1|2' none srun -N2 -n3 -m block "$dump"
record srun-cyclic slurm '0,2,4|1,3' none srun -N2 -n5 --exclusive -m cyclic "$dump"
record srun-plane slurm '0,1,4,5|2,3' none srun -N2 -n6 --exclusive -m plane=2 "$dump"
record srun-cpus-per-task slurm '0,1|2,3' none srun -N2 --ntasks-per-node=2 -c3 "$dump"
record srun-overcommit slurm '0,1,2,3,4,5,6,7,8,9' none srun -N1 -n10 -O "$dump"
record srun-node-gap slurm '0|1' none srun -w n1,n3 -n2 "$dump"
record srun-exclude slurm '0|1|2' none srun -N3 -n3 -x n2 "$dump"
record srun-export-none slurm '0|1' none srun -N2 -n2 --export=NONE "$dump"
record srun-mpi-pmi2 slurm '0,1|2,3' none srun --mpi=pmi2 -N2 --ntasks-per-node=2 "$dump"
record srun-heterogeneous slurm '0|1,2|3' none srun -N1 -n1 "$dump" : -N2 -n3 "$dump"
printf '0-1 %s\n2 %s\n' "$dump" "$dump" > "$bed/programs"
record srun-multi-prog slurm '0|1|2' none srun -N3 -n3 --multi-prog "$bed/programs"
printf 'n2\nn1\nn1\n' > "$bed/hosts"
# Slurm numbers nodes in the order of its own sorted list, not in that of the host file.
record srun-arbitrary slurm '1,2|0' none env "SLURM_HOSTFILE=$bed/hosts" srun -n3 -m arbitrary "$dump"
record srun-pty slurm 0 none script -qec "srun -n1 --pty $dump" /dev/null

# Launches with devices. A task sees one device or all.
record srun-gpus-per-task slurm '0,1|2,3' zero srun -N2 --ntasks-per-node=2 --gpus-per-task=1 "$dump"
record srun-gpus-per-task-uneven slurm '0,1,2|3' zero srun -N2 -n4 --gpus-per-task=1 "$dump"
record srun-gpus-per-node slurm '0,1,2,3|4,5,6,7' local srun -N2 --ntasks-per-node=4 --gpus-per-node=4 "$dump"
record srun-gpus slurm 0,1 local srun -N1 -n2 --gpus=2 "$dump"
record srun-gres-one slurm '0|1' zero srun -N2 -n2 --gres=gpu:1 "$dump"
record srun-gpu-bind slurm 0,1 zero srun -N1 -n2 --gpus-per-node=2 --gpu-bind=single:1 "$dump"
record srun-gpus-more-than-tasks slurm 0,1 local srun -N1 -n2 --gpus-per-node=4 "$dump"

# Allocations. The shell of salloc is not a job step, but srun starts a job step in this shell.
record salloc-shell single 0 none salloc -Q -N2 -n4 "$dump"
record salloc-srun slurm '0,1|2,3' none salloc -Q -N2 --ntasks-per-node=2 srun "$dump"
record salloc-srun-part slurm '0|1' none salloc -Q -N4 -n8 srun -N2 -n2 "$dump"
record salloc-second-step slurm '0|1' none salloc -Q -N2 -n2 sh -c "srun true; srun $dump"
record salloc-srun-preserve-env slurm '0,1|2' none salloc -Q -N2 -n4 srun -E -n3 "$dump"
record salloc-mpirun openmpi 0,1,2 none salloc -Q -N1 -n1 mpirun -n 3 "$dump"
record salloc-within-step single 0 none srun -n1 salloc -Q -N2 -n4 "$dump"

# Batch jobs.
record sbatch-script single 0 none batch -N2 -n4 -- "$dump"
record sbatch-script-gpus single 0 zero batch -N1 -n1 --gpus-per-node=2 -- "$dump"
record sbatch-srun slurm '0,1|2,3' none batch -N2 --ntasks-per-node=2 -- "srun $dump"
record sbatch-array slurm '0|1' none batch -N2 -n2 --array=3 -- "srun $dump"
record sbatch-array-last slurm '0|1' none batch -N2 -n2 --array=4,7 -- "[ \$SLURM_ARRAY_TASK_ID = 4 ] || srun $dump"
record sbatch-heterogeneous slurm '0|1,2' none batch -N1 -n1 : -N1 -n2 -- "srun --het-group=0,1 $dump"
record sbatch-one-step-of-two slurm '0|1' none batch -N2 -n4 -- "srun --exact -N2 -n2 sleep 1 & srun --exact -N2 -n2 $dump; wait"
record sbatch-within-step single 0 none srun -n1 sbatch --wait -N1 -n2 -o /dev/null --wrap "$dump"
record sbatch-requeued slurm '0|1' none batch -N2 -n2 --requeue -- \
  "[ -n \"\$SLURM_RESTART_COUNT\" ] || { scontrol requeue \$SLURM_JOB_ID; sleep 60; }; srun $dump"
record sbatch-script-exports-world-size slurm '0|1' none batch -N2 -n2 -- \
  "export WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=29500; srun $dump"
record sbatch-srun-full-set slurm '0,1|2,3' none batch -N2 --ntasks-per-node=2 -- \
  "export MASTER_ADDR=n1 MASTER_PORT=29500 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2
srun bash -c 'RANK=\$SLURM_PROCID LOCAL_RANK=\$SLURM_LOCALID exec $dump'"

# Inner launchers, alone and within Slurm.
record mpirun-one openmpi 0 none mpirun -n 1 "$dump"
record mpirun-four openmpi 0,1,2,3 none mpirun -n 4 "$dump"
record mpirun-two-programs openmpi 0,1,2 none mpirun -n 1 "$dump" : -n 2 "$dump"
record sbatch-mpirun openmpi '0,1|2' none batch -N2 -n3 -- "mpirun -n 3 $dump"
record sbatch-mpirun-by-node openmpi '0,2|1,3' none batch -N2 --ntasks-per-node=2 -- "mpirun --map-by node -n 4 $dump"
record srun-mpirun openmpi 0,1,2 none srun -n1 mpirun --mca ras ^slurm --mca plm ^slurm -n 3 "$dump"
record hydra-three pmi 0,1,2 none "$hydra" -n 3 "$dump"
record salloc-hydra pmi '0,1|2,3' none salloc -Q -N2 --ntasks-per-node=2 "$hydra" -n 4 "$dump"
record salloc-hydra-part pmi 0,1 none salloc -Q -N2 --ntasks-per-node=2 "$hydra" -n 2 "$dump"
record torchrun-two torchrun 0,1 none "$torchrun" --nproc-per-node 2 --master-port 29611 --no-python "$dump"
record torchrun-standalone torchrun 0,1,2,3 none "$torchrun" --standalone --nproc-per-node 4 --no-python "$dump"
agent="$torchrun --nnodes 2 --nproc-per-node 2 --rdzv-id tests --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29612"
record torchrun-two-agents torchrun '0,1|2,3' none sh -c "$agent --no-python $dump sleep 1 & $agent --no-python $dump sleep 1; wait"
agent="$torchrun --nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port 29613 --node-rank"
record sbatch-srun-torchrun torchrun '0,1|2,3' none batch -N2 -n2 -- \
  "srun bash -c '$agent \$SLURM_NODEID --no-python $dump sleep 1'"
record sbatch-script-torchrun torchrun 0,1 local batch -N1 -n1 --gpus-per-node=2 -- \
  "$torchrun --nproc-per-node 2 --master-port 29614 --no-python $dump"
record launch-three lockstep 0,1,2 none "$lockstep" launch -n 3 -- "$dump"
record srun-launch lockstep 0,1 local srun -n1 --gpus-per-node=2 "$lockstep" launch -n 2 -- "$dump"
record mpirun-launch lockstep 0,1 none mpirun -n 1 "$lockstep" launch -n 2 -- "$dump"
record launch-torchrun torchrun 0,1 none "$lockstep" launch -n 1 -- "$torchrun" --nproc-per-node 2 --master-port 29615 \
  --no-python "$dump"
record plain-shell single 0 none "$dump"
record plain-shell-devices single 0 zero env CUDA_VISIBLE_DEVICES=2,3 "$dump"
record plain-shell-no-devices single 0 none env CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES=0 "$dump"
