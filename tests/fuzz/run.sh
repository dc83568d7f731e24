#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every *_fuzz.cc here against the sources above the torch line, under ASan and UBSan.
#   tests/fuzz/run.sh [SECONDS each: 3, or 300 with LOCKSTEP_SOAK=1; 0 only builds] [BUILD FOLDER] [NAME of one]
# What each starts from lies in corpus/NAME/; inputs that break something stay in the build folder.
set -eu
if [ "${LOCKSTEP_SOAK:-0}" = 1 ]; then usual=300; else usual=3; fi
seconds=${1:-$usual}
only=${3:-*}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build/fuzz}
probe='extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
if ! echo "$probe" | clang++ -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
  echo "skipped: no clang++ with libFuzzer (apt-get install clang libclang-rt-dev)"
  exit 77
fi
compile=clang++
if command -v ccache >/dev/null; then compile="ccache clang++"; fi
mkdir -p "$build"
cd "$build"

flags="-DLOCKSTEP_LIBRARIES_FROM_PROGRAMS=\"../lib\" -std=c++20 -g1 -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
export CPLUS_INCLUDE_PATH="$root"  # No flag: the path may hold spaces.

# compiled SOURCE OBJECT: anew where the source or any header is newer.
compiled() {
  newer=$(find "$1" "$root/lockstep" "$root/tests/fuzz" \( -path "$1" -o -name '*.h' \) -newer "$2" 2>/dev/null || :)
  if [ -e "$2" ] && [ -z "$newer" ]; then return; fi
  # shellcheck disable=SC2086
  $compile $flags -fsanitize=fuzzer-no-link -c "$1" -o "$2"
}

# What the targets may call. Of data/ that is what reads foreign text; the rest is threads and files.
sources() {
  ls "$root"/lockstep/base/*.cc "$root"/lockstep/format/*.cc "$root"/lockstep/recipe/*.cc "$root/lockstep/launch/host_list.cc"
  for name in colour csv_source pixels resample sample_source text_source transform transform_list; do
    echo "$root/lockstep/data/core_$name.cc"
  done
}

library() {
  sources | grep -v -e '_test[.]cc$' -e '/hdf5_file[.]cc$' -e '/hdf5_make[.]cc$' | while read -r source; do
    object=$(basename "$(dirname "$source")")-$(basename "$source" .cc).o
    compiled "$source" "$object"
    echo "$object"
  done
}

objects=$(library)
for source in "$root"/tests/fuzz/${only}_fuzz.cc; do
  name=$(basename "$source" _fuzz.cc)
  compiled "$source" "$name.o"
  # shellcheck disable=SC2086
  if [ ! -e "$name" ] || [ -n "$(find "$name.o" $objects -newer "$name")" ]; then
    clang++ $flags -fsanitize=fuzzer "$name.o" $objects -lz -ljpeg -lpng -o "$name"
  fi
  if [ "$seconds" = 0 ]; then continue; fi
  mkdir -p "found/$name" "seeds/$name"
  cp "$root/tests/fuzz/corpus/$name"/* "seeds/$name/" 2>/dev/null || :
  echo "$name: $seconds s"
  "./$name" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="found/$name/" "seeds/$name" "$root/tests/fuzz/corpus/$name" >"$name.log" 2>&1 ||
    { cat "$name.log" && echo "$name: see $build/found/$name" >&2 && exit 1; }
  grep stat::number_of_executed_units "$name.log"
done
