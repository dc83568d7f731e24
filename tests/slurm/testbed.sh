#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real Slurm on this one machine: a controller, four node daemons, four pretend GPUs a node, a munge of its own.
#   testbed.sh up DIR [BASE_PORT]   start it; then: export SLURM_CONF=DIR/slurm.conf
#   testbed.sh down DIR             stop what `up DIR` started, by process id
# The environment may shape the bed; what is not said is as in the default one:
#   BED_CLUSTER=name BED_NODES=n BED_SOCKETS=s BED_CORES=cores a socket BED_THREADS=threads a core BED_MEMORY=MB
#   BED_GPUS=gpus a node, 0 for no GresTypes at all   BED_GPU_TYPE=a100   BED_PLAIN_NODES=the first so many have no gpus
#   BED_PARTITIONS: lines of slurm.conf; @NODES@ stands for all nodes
#   BED_TASK_PLUGIN=task/none: tasks are not bound; the default binds, and fails where this machine has too few cores for that
#   BED_ACCOUNT=required: a job that names no account is refused
#   BED_JOB_THREADS=1: a job that does not say --threads-per-core has that many of each core
#   BED_NAME=nid00100: the nodes are nid001001 and so on   BED_NODE: more words for their line   BED_SELECT=CR_Core_Memory
#   BED_CONF, BED_GRES: more lines of slurm.conf, the lines of gres.conf; @NODES@ as above, @DEVICES@ is the folder of pretend GPUs
#   BED_ENTER=program: starts each node daemon as `program NODE slurmd ...`, on a pretended machine for one
# Two beds live side by side if their port ranges, [BASE_PORT, BASE_PORT + 100), do not meet; bed.py takes one that is free.
# Needs root and the packages slurm-wlm and munge. Needs no host names: this machine's own may mean nothing to it.
# Tried with slurm-wlm 22.05.8.
set -euo pipefail

action=${1:?usage: testbed.sh up|down DIR [BASE_PORT]}
dir=$(realpath -m "${2:?a folder}")
base_port=${3:-18300}
nodes=${BED_NODES:-4} plain=${BED_PLAIN_NODES:-0} gpus=${BED_GPUS:-4} gpu_type=${BED_GPU_TYPE:-}
sockets=${BED_SOCKETS:-1} cores=${BED_CORES:-8} threads=${BED_THREADS:-1}
partitions=${BED_PARTITIONS:-PartitionName=gpu Nodes=@NODES@ Default=YES MaxTime=INFINITE State=UP}
name=${BED_NAME:-n}
host=$(uname -n)
host=${host%%.*}

daemons() { echo slurmctld; seq -f "slurmd-$name%g" "$nodes"; echo munged; }

pid_of() { cat "$dir/$1.pid" 2> /dev/null; }

stop_by_pid_files() {
  local daemon pid pids=()
  for daemon in $(daemons); do
    if pid=$(pid_of "$daemon") && kill "$pid" 2> /dev/null; then pids+=("$pid"); fi
  done
  # A port must be free, and a folder removable, once this script has ended.
  for pid in "${pids[@]}"; do
    timeout 20 tail --pid="$pid" --sleep-interval=0.1 -f /dev/null || kill -9 "$pid" 2> /dev/null || true
  done
}

# tell_of DAEMON FACT: what went wrong with it, and its own last words.
tell_of() {
  echo "testbed.sh: $1 $2" >&2
  local file
  for file in "$dir/log/$1.err" "$dir/log/$1.log"; do
    if [ -s "$file" ]; then echo "testbed.sh: the last lines of $file:" >&2; tail -n 15 "$file" >&2; fi
  done
}

# start DAEMON COMMAND...: its standard error goes to a file, since it keeps that open for as long as it lives.
start() {
  local daemon=$1 code=0
  shift
  "$@" > "$dir/log/$daemon.err" 2>&1 < /dev/null || code=$?
  if [ "$code" != 0 ]; then
    tell_of "$daemon" "ended with $code: $*"
    stop_by_pid_files
    exit 1
  fi
}

# Says which daemons have ended, and why the others' nodes are not there.
tell_why() {
  local daemon pid
  for daemon in $(daemons); do
    if ! pid=$(pid_of "$daemon"); then
      tell_of "$daemon" "wrote no $dir/$daemon.pid"
    elif ! kill -0 "$pid" 2> /dev/null; then
      tell_of "$daemon" "(process $pid) has ended"
    fi
  done
  echo "testbed.sh: the nodes did not come up; sinfo says:" >&2
  timeout 20 sinfo -N -o '%N %T %E' >&2 || true
}

has_ended() {
  local daemon pid
  for daemon in $(daemons); do
    if pid=$(pid_of "$daemon") && ! kill -0 "$pid" 2> /dev/null; then return 0; fi
  done
  return 1
}

# Where loopback is the only network, the resolver knows no IPv4 address at all if it is asked for IPv4 alone, as Slurm does.
communication() { getent ahostsv4 127.0.0.1 > /dev/null || echo CommunicationParameters=EnableIPv6; }

write_configuration() {
  mkdir -p "$dir"/{state,spool,log,dev,munge}
  chmod 755 "$dir" "$dir/munge"
  # A gres needs character devices; these are copies of the null device.
  local gres_types='' gres=''
  if [ "$gpus" != 0 ]; then
    for g in $(seq 0 $((gpus - 1))); do [ -e "$dir/dev/gpu$g" ] || mknod "$dir/dev/gpu$g" c 1 3; done
    echo "NodeName=${name}[$((plain + 1))-$nodes] Name=gpu ${gpu_type:+Type=$gpu_type} File=$dir/dev/gpu[0-$((gpus - 1))]" > "$dir/gres.conf"
    if [ -n "${BED_GRES:-}" ]; then filled "$BED_GRES" > "$dir/gres.conf"; fi
    gres_types=GresTypes=gpu gres=Gres=gpu:${gpu_type:+$gpu_type:}$gpus
  fi
  local submit_plugin=''
  if [ "${BED_ACCOUNT:-}" = required ]; then
    submit_plugin=JobSubmitPlugins=lua
    write_account_rule
  fi
  if [ -n "${BED_JOB_THREADS:-}" ]; then
    submit_plugin+=$'\n'CliFilterPlugins=lua
    write_threads_rule
  fi
  # This plugin alone starts where no file system of control groups is mounted, as in a bare chroot.
  if ! grep -q ' /sys/fs/cgroup' /proc/self/mounts; then echo CgroupPlugin=cgroup/v1 > "$dir/cgroup.conf"; fi
  cat > "$dir/slurm.conf" << CONF
ClusterName=${BED_CLUSTER:-testbed}
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for its old credential to expire: two minutes by default.
AuthInfo=socket=$dir/munge/socket,cred_expire=5
MpiDefault=none
MpiParams=ports=$((base_port + 20))-$((base_port + 99))
ProctrackType=proctrack/linuxproc
TaskPlugin=${BED_TASK_PLUGIN:-task/affinity}
SwitchType=switch/none
$(communication)
SlurmctldPort=$base_port
# Steps derive ports, and folders on the node, from their job: two beds at once must not have the same jobs.
FirstJobId=$((base_port * 1000 + RANDOM % 900 * 100))
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
SelectTypeParameters=${BED_SELECT:-CR_Core}
ReturnToService=2
$gres_types
$submit_plugin
JobRequeue=1
KillWait=5
$(if [ "$plain" != 0 ]; then node_line 1 "$plain" ''; fi)
$(node_line $((plain + 1)) "$nodes" "$gres")
$(filled "$partitions")
$(filled "${BED_CONF:-}")
CONF
}

# filled TEXT: with the words that only this script knows.
filled() {
  local text=${1//@NODES@/${name}[1-$nodes]}
  printf '%s\n' "${text//@DEVICES@/$dir/dev}"
}

# node_line FIRST LAST GRES
node_line() {
  echo "NodeName=${name}[$1-$2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base_port + $1))-$((base_port + $2))]" \
    "CPUs=$((sockets * cores * threads)) Sockets=$sockets CoresPerSocket=$cores ThreadsPerCore=$threads" \
    "RealMemory=${BED_MEMORY:-4000} $3 ${BED_NODE:-} State=UNKNOWN"
}

# As sites do it where the accounting alone would not: the plugin is compiled into their Slurm, and reads this file.
write_account_rule() {
  cat > "$dir/job_submit.lua" << 'LUA'
function slurm_job_submit(description, partitions, user)
  if description.account == nil then
    slurm.log_user("name an account: --account")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(description, record, partitions, user) return slurm.SUCCESS end
return slurm.SUCCESS
LUA
}

# The default of --threads-per-core, for sbatch, salloc and srun alike.
write_threads_rule() {
  cat > "$dir/cli_filter.lua" << LUA
function slurm_cli_setup_defaults(options, early)
  options["threads-per-core"] = "$BED_JOB_THREADS"
  return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job, step) return slurm.SUCCESS end
LUA
}

start_munge() {
  head -c 1024 /dev/urandom > "$dir/munge/key"
  chmod 400 "$dir/munge/key"
  # Else it looks for its own name, and waits for a name server that may not answer. Older ones know no such option.
  local origin=()
  if munged --help | grep -q -e --origin; then origin=(--origin=127.0.0.1); fi
  start munged munged --force --num-threads=2 --socket="$dir/munge/socket" --key-file="$dir/munge/key" "${origin[@]}" \
    --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed"
}

case $action in
  down) stop_by_pid_files ;;
  up)
    write_configuration
    export SLURM_CONF=$dir/slurm.conf
    start_munge
    start slurmctld slurmctld -f "$SLURM_CONF"
    for n in $(seq -f "$name%g" "$nodes"); do start "slurmd-$n" ${BED_ENTER:+"$BED_ENTER" "$n"} slurmd -f "$SLURM_CONF" -N "$n"; done
    # Long, as other work may have the cores; what has ended will not come back.
    for _ in $(seq 600); do
      [ "$(timeout 20 sinfo -h -o %T 2> /dev/null)" = idle ] && exit 0
      if has_ended; then break; fi
      sleep 0.1
    done
    tell_why
    stop_by_pid_files
    exit 1
    ;;
  *) echo "testbed.sh: unknown action '$action', want up or down" >&2; exit 2 ;;
esac
