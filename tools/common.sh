# SPDX-License-Identifier: Apache-2.0
# Functions and variables that the scripts of this folder share. Each script sources this file after `set -euo pipefail`.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/lockstep}
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$cache/pip} CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}

peers_venv=$cache/venv-peers
bench_venv=$cache/venv-full
old_venv=$cache/venv-python-2.0
torch_tested=2.11.0
torch_oldest=2.7

say() { printf '%s\n' "$*" >&2; }

# fail CODE FACT HINT: prints an error and exits. The exit codes are those of the commands, see README.md.
fail() {
  say "error: $2"
  say "  hint: $3"
  exit "$1"
}

# Prints the device that LibTorch is needed for: cpu, cuda or rocm.
device() {
  case ${LOCKSTEP_DEVICE:-} in
    cpu | cuda | rocm) echo "$LOCKSTEP_DEVICE" ;;
    "")
      if [[ -e /dev/nvidia0 || -e /proc/driver/nvidia/version ]] || nvidia-smi -L >/dev/null 2>&1; then
        echo cuda
      elif [[ -e /dev/kfd ]]; then
        echo rocm
      else
        echo cpu
      fi
      ;;
    *) fail 2 "LOCKSTEP_DEVICE is '$LOCKSTEP_DEVICE', want cpu, cuda or rocm" "unset it to have the device found" ;;
  esac
}

# Prints the number of cores that this process may use. If OpenMP's variables are set, plain nproc prints the number of threads instead.
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# For programs that share the cores with others, as tests do. A thread of LibTorch's OpenMP (libgomp) that waits for the others of its
# process spins for milliseconds, on a core that those others need. Where libgomp sees more threads than cores, it spins 100 times only,
# but it sees its own process alone. On two cores beside four busy programs a training step of an MNIST network took 317 ms, with this
# number 147 ms. On quiet cores the long spin is the faster one.
share_cores() { export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-100}; }

# Prints how many compilations to run at once. One that includes torch.h takes up to 2 GB, so a small memory lowers the number.
jobs_wanted() {
  if [[ -n ${LOCKSTEP_JOBS:-} ]]; then
    [[ $LOCKSTEP_JOBS =~ ^[1-9][0-9]*$ ]] ||
      fail 2 "LOCKSTEP_JOBS is '$LOCKSTEP_JOBS', want a number from 1" "unset it to use every core"
    echo "$LOCKSTEP_JOBS"
    return
  fi
  local by_cores by_memory
  by_cores=$(cores)
  by_memory=$(awk '/^MemAvailable:/ { n = int($2 / 2097152); print n < 1 ? 1 : n }' /proc/meminfo)
  echo $((by_cores < by_memory ? by_cores : by_memory))
}

# Prints the version of the LibTorch in the folder $1, such as 2.11.0.
torch_version() {
  local header
  for header in "$1"/include/torch/headeronly/version.h "$1"/include/torch/csrc/api/include/torch/version.h \
    "$1"/include/torch/version.h; do
    if [[ -f $header ]] && grep -q 'define TORCH_VERSION_MAJOR' "$header"; then
      awk '$2 ~ /^TORCH_VERSION_(MAJOR|MINOR|PATCH)$/ { v[$2] = $3 }
        END { print v["TORCH_VERSION_MAJOR"] "." v["TORCH_VERSION_MINOR"] "." v["TORCH_VERSION_PATCH"] }' "$header"
      return
    fi
  done
}

# at_least VERSION WANTED: succeeds if VERSION is WANTED or newer.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# Prints CMake's option for the compiler. Clang compiles a file below the torch line in a third of g++'s time, because its precompiled
# headers also hold the templates that they use. CXX or an earlier configuration takes precedence. Programs work the same with both.
compiler_option() {
  local version
  [[ -z ${CXX:-} && $(device) != rocm ]] || return 0
  version=$(clang++ -dumpversion 2>/dev/null) || return 0
  if ((${version%%.*} >= 14)); then echo -DCMAKE_CXX_COMPILER=clang++; fi
}

# venv_is_whole VENV WHEEL...: succeeds if pip has installed all the wheels, each given as NAME==VERSION. pip writes a wheel's RECORD last.
# Its folder has _ for each - of the name.
venv_is_whole() {
  local wheel name
  for wheel in "${@:2}"; do
    name=${wheel%%==*}
    compgen -G "$1/lib/python3.*/site-packages/${name//-/_}-${wheel##*==}.dist-info/RECORD" >/dev/null || return 1
  done
}
