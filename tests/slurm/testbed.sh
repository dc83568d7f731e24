#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a real Slurm, the testbed, on this one machine. It has a controller, four node daemons with four pretended GPUs each, and a
# munge daemon of its own.
#   testbed.sh up DIR [BASE_PORT]   starts it; then: export SLURM_CONF=DIR/slurm.conf
#   testbed.sh down DIR             stops the daemons that `up DIR` started, by process id
# These environment variables change the testbed:
#   BED_CLUSTER      name of the cluster
#   BED_NODES        number of nodes
#   BED_SOCKETS, BED_CORES, BED_THREADS   sockets of a node, cores of a socket, threads of a core
#   BED_MEMORY       memory of a node in MB
#   BED_GPUS         GPUs of a node; 0 for no GresTypes at all
#   BED_GPU_TYPE     type of the GPUs, such as a100
#   BED_PLAIN_NODES  number of nodes without GPUs, which come first
#   BED_NAME         beginning of the nodes' names: with nid00100 they are nid001001 and so on
#   BED_NODE         more words for the nodes' line of slurm.conf
#   BED_PARTITIONS   partition lines of slurm.conf
#   BED_CONF         more lines of slurm.conf
#   BED_GRES         the lines of gres.conf
#   BED_SELECT       SelectTypeParameters, such as CR_Core_Memory
#   BED_TASK_PLUGIN  task/none, for tasks that are not bound; by default tasks are bound, which fails on a machine with too few cores
#   BED_ACCOUNT      required, to refuse a job that names no account
#   BED_JOB_THREADS  threads of each core for a job without --threads-per-core
#   BED_ENTER        a program that starts each node daemon, as `program NODE slurmd ...`, such as on a pretended machine
# In the lines, @NODES@ stands for all nodes and @DEVICES@ for the folder of pretended GPUs.
# Two testbeds can run side by side if their port ranges, [BASE_PORT, BASE_PORT + 100), do not overlap. bed.py picks a free range.
# Needs root and the packages slurm-wlm and munge. Needs no host names, because a machine may not resolve its own.
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

# pid_of DAEMON: prints its process, or fails while it has not written its number and the newline.
pid_of() {
  local pid
  { read -r pid < "$dir/$1.pid"; } 2> /dev/null && echo "$pid"
}

stop_by_pid_files() {
  local daemon pid pids=()
  for daemon in $(daemons); do
    if pid=$(pid_of "$daemon") && kill "$pid" 2> /dev/null; then pids+=("$pid"); fi
  done
  # When this script has ended, the ports must be free and the folder removable.
  for pid in "${pids[@]}"; do
    timeout 20 tail --pid="$pid" --sleep-interval=0.1 -f /dev/null || kill -9 "$pid" 2> /dev/null || true
  done
}

# tell_of DAEMON FACT: prints what went wrong with the daemon, and the last lines of its logs.
tell_of() {
  echo "testbed.sh: $1 $2" >&2
  local file
  for file in "$dir/log/$1.err" "$dir/log/$1.log"; do
    if [ -s "$file" ]; then echo "testbed.sh: the last lines of $file:" >&2; tail -n 15 "$file" >&2; fi
  done
}

# start DAEMON COMMAND...: starts a daemon, or stops all and exits with 1. Standard error goes to a file, because a daemon keeps it open.
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

# Prints which daemons have ended, and the reason that Slurm gives for nodes that did not come up.
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

# If loopback is the only network, the resolver has no IPv4 address for a program that asks for IPv4 alone, as Slurm does.
communication() { getent ahostsv4 127.0.0.1 > /dev/null || echo CommunicationParameters=EnableIPv6; }

write_configuration() {
  mkdir -p "$dir"/{state,spool,log,dev,munge}
  chmod 755 "$dir" "$dir/munge"
  # Slurm's GRES needs character devices. These are copies of the null device.
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
  # Without a mounted file system of control groups, as in a bare chroot, only this plugin starts.
  if ! grep -q ' /sys/fs/cgroup' /proc/self/mounts; then echo CgroupPlugin=cgroup/v1 > "$dir/cgroup.conf"; fi
  cat > "$dir/slurm.conf" << CONF
ClusterName=${BED_CLUSTER:-testbed}
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential expires, which takes two minutes by default.
AuthInfo=socket=$dir/munge/socket,cred_expire=5
MpiDefault=none
MpiParams=ports=$((base_port + 20))-$((base_port + 99))
ProctrackType=proctrack/linuxproc
TaskPlugin=${BED_TASK_PLUGIN:-task/affinity}
SwitchType=switch/none
$(communication)
SlurmctldPort=$base_port
# Steps derive ports and folders on the node from their job id, so two testbeds must not have the same job ids.
FirstJobId=$((base_port * 1000 + RANDOM % 900 * 100))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
# Slurm looks at waiting jobs every second instead of every minute.
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

# filled TEXT: prints the text with @NODES@ and @DEVICES@ replaced.
filled() {
  local text=${1//@NODES@/${name}[1-$nodes]}
  printf '%s\n' "${text//@DEVICES@/$dir/dev}"
}

# node_line FIRST LAST GRES: prints the line of slurm.conf for the nodes FIRST to LAST.
node_line() {
  echo "NodeName=${name}[$1-$2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((base_port + $1))-$((base_port + $2))]" \
    "CPUs=$((sockets * cores * threads)) Sockets=$sockets CoresPerSocket=$cores ThreadsPerCore=$threads" \
    "RealMemory=${BED_MEMORY:-4000} $3 ${BED_NODE:-} State=UNKNOWN"
}

# Refuses a job without an account, as sites do when their accounting does not. The plugin is part of Slurm, and reads this file.
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

# Sets the default of --threads-per-core for sbatch, salloc and srun.
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
  # Without --origin, munged resolves its own host name and waits for a name server that may not answer. Older versions lack the option.
  local origin=()
  if munged --help | grep -q -e --origin; then origin=(--origin=127.0.0.1); fi
  start munged munged --force --num-threads=2 --socket="$dir/munge/socket" --key-file="$dir/munge/key" "${origin[@]}" \
    --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed"
}

case $action in
  down)
    stop_by_pid_files
    # The nodes are this machine, so a step that was killed has left its node folder here. Its job's number is of this bed.
    first=$(sed -n 's/^FirstJobId=//p' "$dir/slurm.conf" 2> /dev/null || true)
    if [ -n "$first" ]; then rm -rf /tmp/lockstep-"$(id -u)-${first%?????}"?????[._-]*; fi
    ;;
  up)
    write_configuration
    export SLURM_CONF=$dir/slurm.conf
    start_munge
    start slurmctld slurmctld -f "$SLURM_CONF"
    for n in $(seq -f "$name%g" "$nodes"); do start "slurmd-$n" ${BED_ENTER:+"$BED_ENTER" "$n"} slurmd -f "$SLURM_CONF" -N "$n"; done
    # The limit is long because other work may use the cores. A daemon that has ended does not come back.
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
