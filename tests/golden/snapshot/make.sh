#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make.sh BIN: writes a snapshot of two ranks in the middle of an epoch with the programs in BIN. The snapshot in this folder comes
# from a build that saved the mean of powersgd's errors, and no sums of single ranks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
"$1/lockstep" train "$here/../../../recipes/digits.toml" --devices 2 --run-dir "$run" --set model.hidden=[8] --set trainer.max_steps=12 \
  --set trainer.compression=powersgd --set trainer.compression_start=3 --set trainer.average=ema --set observe.log_every=5 \
  --set trainer.threads=1
rm -rf "$here/step-0000000012"
cp -r "$run/snapshots/step-0000000012" "$here/"
