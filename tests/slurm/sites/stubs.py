# SPDX-License-Identifier: Apache-2.0
"""Programs that a site has and this machine has not: modules, conda, containers, launchers. Each does what matters here."""
import os
import sys

# Adds the module's bin to PATH; what is not there ends with 1, as Lmod does.
MODULE = """module() {
  local word
  case $1 in
    load)
      for word in "${@:2}"; do
        case " @KNOWN@ " in *" $word "*) ;; *) echo "Lmod has detected the following error: unknown module: $word" >&2; return 1 ;; esac
        if [ -d "@STUBS@/modules/$word/bin" ]; then PATH=@STUBS@/modules/$word/bin:$PATH; fi
      done ;;
    purge | use | --force) ;;
    *) echo "module: $1 is not known here" >&2; return 1 ;;
  esac
}"""
# `conda shell.bash hook` prints a function, as the real one does.
CONDA = """#!/bin/bash
cat << 'HOOK'
conda() {
  if [ "$1" != activate ] || [ ! -d "@STUBS@/envs/$2/bin" ]; then echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2; return 1; fi
  export CONDA_PREFIX=@STUBS@/envs/$2 PATH=@STUBS@/envs/$2/bin:$PATH
}
HOOK
"""
# The device's library belongs to the host. A container has none, unless it is bound into the image or the image has its own.
CONTAINER = """#!/bin/bash
[ "$1" = exec ] || { echo "want exec, not $1" >&2; exit 1; }
shift
brought=
while [[ $1 == -* ]]; do
  case $1 in
    --nv | --rocm) brought=$1; shift ;;
    -B) shift 2 ;;
    *) echo "unknown flag $1" >&2; exit 1 ;;
  esac
done
image=$1
shift
[ -e "$image" ] || { echo "FATAL: could not open image $image" >&2; exit 255; }
own=$(cat "$image")
if [ "$1" = find ]; then [ -z "$own" ] || echo "/opt/rocm/lib/libamdhip64.so.6"; exit 0; fi
export PATH=@STUBS@/image/bin:/usr/bin:/bin
if [ -n "$brought" ] || [ -n "$own" ]; then exec "$@"; fi
exec unshare --mount sh -c 'mount -t tmpfs none @STUBS@/driver && exec "$0" "$@"' "$@"
"""
# A stand-in for torchrun. As in PyTorch, variables give the defaults of its flags. Nodes that do not know of each other are separate runs.
TORCHRUN = """#!@PYTHON@
import os, subprocess, sys
words = sys.argv[1:]
own = 1
while words[0].startswith("--"):
    name, value = words.pop(0)[2:].replace("-", "_").split("=")
    assert name == "nproc_per_node", name
    own = int(value)
nodes, node = int(os.environ.get("PET_NNODES", "1").split(":")[0]), int(os.environ.get("PET_NODE_RANK", 0))
ranks = []
for local in range(own):
    env = {"RANK": node * own + local, "WORLD_SIZE": nodes * own, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": own, "NODE_RANK": node,
           "MASTER_ADDR": os.environ.get("PET_MASTER_ADDR", "localhost"), "MASTER_PORT": os.environ.get("PET_MASTER_PORT", 29500)}
    ranks.append(subprocess.Popen([sys.executable, *words], env=os.environ | {key: str(value) for key, value in env.items()}))
sys.exit(max(rank.wait() for rank in ranks))
"""


def write(stubs, modules):
    """The folder's programs; the shell function `module` as text."""
    def put(path, text):
        file = stubs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("@STUBS@", str(stubs)).replace("@PYTHON@", sys.executable))
        file.chmod(0o755)

    for runtime in ("apptainer", "singularity"):
        put(f"bin/{runtime}", CONTAINER)
    put("bin/conda", CONDA)
    put("bin/torchrun", TORCHRUN)
    put("driver/libdevice.so.1", "")
    put("with-rocm.sif", "rocm")
    put("without-libraries.sif", "")
    # A login shell has a Python, which is not the one that users want.
    pythons = {"login": "bin", "conda torch": "envs/torch/bin", "image": "image/bin"} | {f"module {name}": f"modules/{name}/bin" for name in ("pytorch", "Python")}
    for name, folder in pythons.items():
        for program in ("python", "python3"):
            put(f"{folder}/{program}", f"#!/bin/sh\nPYTHON_IS='{name}' exec {sys.executable} \"$@\"\n")
    return MODULE.replace("@STUBS@", str(stubs)).replace("@KNOWN@", " ".join(modules))


def prologs(folder, library, root):
    """What Slurm runs before a job on each node, and before each task.

    The first writes which CPUs the job may use, as Slurm would make a control group of them; the second brings the library
    of pretended cores into tasks, whatever environment they get."""
    prolog, task_prolog = folder / "prolog", folder / "task_prolog"
    prolog.write_text(f"""#!{sys.executable}
import os, pathlib, re, subprocess, sys
node, job = os.environ["SLURMD_NODENAME"], os.environ["SLURM_JOB_ID"]
shown = subprocess.run(["scontrol", "show", "job", "--details", job], text=True, capture_output=True, check=True,
                       env={{"PATH": {os.environ["PATH"]!r}, "SLURM_CONF": os.environ["SLURM_CONF"]}}).stdout
mask = 0
for names, ids in re.findall(r"Nodes=(\\S+) CPU_IDs=(\\S+)", shown):
    nodes = subprocess.run(["scontrol", "show", "hostnames", names], text=True, capture_output=True, check=True,
                           env={{"PATH": {os.environ["PATH"]!r}, "SLURM_CONF": os.environ["SLURM_CONF"]}}).stdout.split()
    for part in ids.split(",") if node in nodes else []:
        ends = part.split("-")
        for cpu in range(int(ends[0]), int(ends[-1]) + 1):
            core, threads, cores = cpu // @THREADS@, @THREADS@, @CORES@
            for thread in range(threads):
                mask |= 1 << core + cores * thread
if mask:
    (pathlib.Path({str(root)!r}) / "cores" / node / f"job-{{job}}").write_bytes(mask.to_bytes(128, "little"))
""")
    task_prolog.write_text(f"#!/bin/sh\necho export LD_PRELOAD={library}\necho export PRETENDED_CORES={root}/cores/$SLURMD_NODENAME\n")
    for file in (prolog, task_prolog):
        file.chmod(0o755)
    return prolog, task_prolog
