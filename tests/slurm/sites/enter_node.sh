#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on a pretended node: enter_node.sh NODE COMMAND...
# PRETENDED_ROOT is a folder with the node's /sys/devices/system, /sys/bus, /sys/class, /proc/driver; PRETENDED_LIBRARY is
# pretended_cores.c, built; the node's CPUs are in PRETENDED_ROOT/cores/all.
set -euo pipefail

if [ -z "${PRETENDED_NODE:-}" ]; then
  # Mounts and the host name go with the last process that sees them.
  PRETENDED_NODE=$1 exec unshare --mount --uts "$0" "$@"
fi
hostname "$PRETENDED_NODE"
mkdir -p "$PRETENDED_ROOT/cores/$PRETENDED_NODE" "$PRETENDED_ROOT/sys/class/net"
cp "$PRETENDED_ROOT/cores/all" "$PRETENDED_ROOT/cores/$PRETENDED_NODE/all"
# Network interfaces are the machine's own.
mount --bind /sys/class/net "$PRETENDED_ROOT/sys/class/net"
for folder in sys/devices/system sys/bus proc/driver; do mount --bind "$PRETENDED_ROOT/$folder" "/$folder"; done
mount --rbind "$PRETENDED_ROOT/sys/class" /sys/class
# The files of a driver beside those that there are: programs ask whether they exist.
mkdir -p "$PRETENDED_ROOT/dev"
mount -t tmpfs none "$PRETENDED_ROOT/dev"
cp -r "$PRETENDED_ROOT/drivers/." "$PRETENDED_ROOT/dev"
for file in /dev/*; do
  inside=$PRETENDED_ROOT/dev/${file##*/}
  if [ -L "$file" ]; then cp -P "$file" "$inside"; continue; fi
  if [ -d "$file" ]; then mkdir "$inside"; else touch "$inside"; fi
  mount --rbind "$file" "$inside"
done
mount --rbind "$PRETENDED_ROOT/dev" /dev
shift
export LD_PRELOAD=$PRETENDED_LIBRARY PRETENDED_CORES=$PRETENDED_ROOT/cores/$PRETENDED_NODE
# Slurm finds the node's cores by hwloc, which asks the processor itself unless told not to.
export HWLOC_COMPONENTS=-x86
exec "$@"
