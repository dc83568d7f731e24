#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real Slurm on this one machine: a controller, four node daemons, four pretend GPUs a node, a munge of its own.
#   testbed.sh up DIR [BASE_PORT]   start it; then: export SLURM_CONF=DIR/slurm.conf
#   testbed.sh down DIR             stop what `up DIR` started, by process id
# Two beds live side by side where their port ranges, [BASE_PORT, BASE_PORT + 100), do not meet.
# Needs root and the packages slurm-wlm and munge. Tried with slurm-wlm 22.05.8.
set -euo pipefail

action=${1:?usage: testbed.sh up|down DIR [BASE_PORT]}
dir=$(realpath -m "${2:?a folder}")
base_port=${3:-28300}
nodes=4 gpus=4 cores=8

stop_by_pid_files() {
  local file pid
  for file in "$dir"/slurmctld.pid "$dir"/slurmd-*.pid "$dir"/munged.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null || continue
    # A port must be free, and a folder removable, once this script has ended.
    tail --pid="$pid" -f /dev/null & timeout 20 tail --pid="$pid" -f /dev/null || kill -9 "$pid" 2>/dev/null || true
    wait
  done
}

write_configuration() {
  mkdir -p "$dir"/{state,spool,log,dev,munge}
  chmod 755 "$dir" "$dir/munge"
  # A gres needs character devices; these are copies of the null device.
  for g in $(seq 0 $((gpus - 1))); do [ -e "$dir/dev/gpu$g" ] || mknod "$dir/dev/gpu$g" c 1 3; done
  echo "Name=gpu File=$dir/dev/gpu[0-$((gpus - 1))]" > "$dir/gres.conf"
  cat > "$dir/slurm.conf" << CONF
ClusterName=testbed
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for its old credential to expire: two minutes by default.
AuthInfo=socket=$dir/munge/socket,cred_expire=5
MpiDefault=none
MpiParams=ports=$((base_port + 20))-$((base_port + 99))
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SwitchType=switch/none
SlurmctldPort=$base_port
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
# A job that has to wait is looked at each second, not each minute.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
GresTypes=gpu
JobRequeue=1
KillWait=5
NodeName=n[1-$nodes] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 \
Port=[$((base_port + 1))-$((base_port + nodes))] CPUs=$cores Sockets=1 CoresPerSocket=$cores ThreadsPerCore=1 \
RealMemory=4000 Gres=gpu:$gpus State=UNKNOWN
PartitionName=gpu Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP
CONF
}

start_munge() {
  head -c 1024 /dev/urandom > "$dir/munge/key"
  chmod 400 "$dir/munge/key"
  munged --force --num-threads=2 --socket="$dir/munge/socket" --key-file="$dir/munge/key" \
    --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed" 2> /dev/null
}

case $action in
  down) stop_by_pid_files ;;
  up)
    write_configuration
    export SLURM_CONF=$dir/slurm.conf
    start_munge
    slurmctld -f "$SLURM_CONF"
    for n in $(seq "$nodes"); do slurmd -f "$SLURM_CONF" -N "n$n"; done
    for _ in $(seq 100); do
      [ "$(sinfo -h -o %T 2> /dev/null)" = idle ] && exit 0
      sleep 0.1
    done
    echo "testbed.sh: not all nodes came up; see $dir/log" >&2
    stop_by_pid_files
    exit 1
    ;;
  *) echo "testbed.sh: unknown action '$action', want up or down" >&2; exit 2 ;;
esac
