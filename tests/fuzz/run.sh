#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every *_fuzz.cc here against the sources above the torch line, under ASan and UBSan.
#   tests/fuzz/run.sh [SECONDS each, 10 by default] [BUILD FOLDER]
# What each starts from lies in corpus/NAME/; inputs that break something stay in the build folder.
set -eu
seconds=${1:-10}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build/fuzz}
mkdir -p "$build"
cd "$build"

library() {
  for folder in base format; do
    for source in "$root/lockstep/$folder"/*.cc; do
      case $source in *_test.cc | */hdf5_file.cc | */hdf5_make.cc) continue ;; esac
      object=$folder-$(basename "$source" .cc).o
      newer=$(find "$source" "$root/lockstep" \( -path "$source" -o -name '*.h' \) -newer "$object" 2>/dev/null || :)
      if [ ! -e "$object" ] || [ -n "$newer" ]; then
        clang++ $flags -fsanitize=fuzzer-no-link -c "$source" -o "$object"
      fi
      echo "$object"
    done
  done
}

flags="-std=c++20 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -I$root"
objects=$(library)
for source in "$root"/tests/fuzz/*_fuzz.cc; do
  name=$(basename "$source" _fuzz.cc)
  clang++ $flags -fsanitize=fuzzer "$source" $objects -lz -ljpeg -lpng -o "$name"
  mkdir -p "found/$name" "seeds/$name"
  cp "$root/tests/fuzz/corpus/$name"/* "seeds/$name/" 2>/dev/null || :
  echo "$name: $seconds s"
  "./$name" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="found/$name/" "seeds/$name" "$root/tests/fuzz/corpus/$name" 2>&1 |
    grep -E 'stat::number_of_executed_units|ERROR|SUMMARY|Test unit' || :
  if [ -n "$(ls "found/$name")" ]; then
    echo "$name: see $build/found/$name" >&2
    exit 1
  fi
done
