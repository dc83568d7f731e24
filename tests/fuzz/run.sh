#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one reader under libFuzzer: tests/fuzz/run.sh PROGRAM NAME. The inputs start from corpus/NAME/, and are the same 5000 each time.
# With LOCKSTEP_SOAK=1 the reader gets new inputs for 5 minutes, which start from those found the last time. Inputs that
# break something stay in found/NAME/ below the current folder. Without a program, the script says why there is none and exits with 77.
set -eu
if [ $# = 0 ]; then
  echo "skipped: the asan preset was not configured with a clang++ that has libFuzzer (apt-get install clang libclang-rt-dev)"
  exit 77
fi
program=$1 name=$2
corpus=$(dirname "$0")/corpus/$name
mkdir -p "found/$name"
if [ "${LOCKSTEP_SOAK:-0}" = 1 ]; then
  seeds=seeds/$name
  set -- -max_total_time=300
else
  seeds=sample/$name
  rm -rf "$seeds"
  set -- -seed=1 -runs=5000 -max_total_time=60
fi
mkdir -p "$seeds"
set -- "$@" "$seeds"
if [ -d "$corpus" ]; then set -- "$@" "$corpus"; fi
"$program" -max_len=4096 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
  -artifact_prefix="found/$name/" "$@" >"$name.log" 2>&1 ||
  { cat "$name.log" && echo "$name: see $PWD/found/$name" >&2 && exit 1; }
grep stat::number_of_executed_units "$name.log"
