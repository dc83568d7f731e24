#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on a pretended node: enter_node.sh NODE COMMAND...
# PRETENDED_ROOT is a folder with the node's /sys/devices/system, /sys/bus, /sys/class and /proc/driver. The file cores/all in it lists
# the node's CPUs. PRETENDED_LIBRARY is the library built from pretended_cores.c.
set -euo pipefail

if [ -z "${PRETENDED_NODE:-}" ]; then
  # The mounts and the host name end with the last process of the namespace.
  PRETENDED_NODE=$1 exec unshare --mount --uts "$0" "$@"
fi
hostname "$PRETENDED_NODE"
mkdir -p "$PRETENDED_ROOT/cores/$PRETENDED_NODE" "$PRETENDED_ROOT/sys/class/net"
cp "$PRETENDED_ROOT/cores/all" "$PRETENDED_ROOT/cores/$PRETENDED_NODE/all"
# Network interfaces stay those of the machine.
mount --bind /sys/class/net "$PRETENDED_ROOT/sys/class/net"
for folder in sys/devices/system sys/bus proc/driver; do mount --bind "$PRETENDED_ROOT/$folder" "/$folder"; done
mount --rbind "$PRETENDED_ROOT/sys/class" /sys/class
# Adds the files of a driver to the existing ones, because programs ask whether they exist.
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
# Slurm finds the node's cores by hwloc, which asks the processor itself unless this variable forbids it.
export HWLOC_COMPONENTS=-x86
exec "$@"
