# SPDX-License-Identifier: Apache-2.0
"""Compiles a network that lockstep-train has traced: PYTHON lockstep_host/compile.py TRACED OUT.pt2

lockstep-train starts this program. Exits with 0, or with 1 and the reason as the last line of standard error.
"""
import argparse
import contextlib
import ctypes
import json
import pathlib
import signal
import sys
import traceback

PR_SET_PDEATHSIG = 1


def tensor_of(torch, described, device):
    dtype = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}[described["dtype"]]
    made = torch.empty_strided(described["shape"], described["stride"], dtype=dtype, device=device)
    # Integers are indices into a table, and 0 is in every table. Other numbers are random, because zeros may have no gradient.
    return made.zero_() if dtype == torch.int64 else made.uniform_().requires_grad_(described["trained"])


def compute_by(torch, traced):
    """Returns the function `compute` for passes.compile_passes. It runs the traced network without TorchScript's optimizations, so
    that AOTAutograd and autocast see every operation."""
    torch._C._jit_set_profiling_executor(False)
    torch._C._jit_set_profiling_mode(False)
    torch._C._jit_set_autocast_mode(False)

    def compute(parameters, buffers, batch):
        with torch.jit.optimized_execution(False):
            return traced(*parameters.values(), *buffers.values(), batch)

    return compute


def compile_traced(torch, passes, asked):
    extra = {"facts.json": ""}
    traced = torch.jit.load(asked.traced, map_location="cpu", _extra_files=extra)
    facts = json.loads(extra["facts.json"])
    device = torch.device(facts["device"], asked.index) if facts["device"] != "cpu" else torch.device("cpu")
    if device.type != "cpu":
        torch.cuda.set_device(device)
    torch.set_num_threads(asked.threads)
    if asked.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    tensors = {which: {each["name"]: tensor_of(torch, each, device) for each in facts[which]} for which in ("parameters", "buffers")}
    batch = tensor_of(torch, facts["batch"], device)
    for_cuda = device.type == "cuda" and torch.version.cuda
    with passes.cuda_for_the_linker(torch) if for_cuda else contextlib.nullcontext():
        return passes.compile_passes(torch, compute_by(torch, traced), tensors["parameters"], tensors["buffers"], batch, asked.precision,
                                     pathlib.Path(asked.out), asked.stages, asked.least)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traced")
    parser.add_argument("out")
    parser.add_argument("--precision", required=True)
    parser.add_argument("--torch", required=True, help="version of PyTorch that the package must fit")
    parser.add_argument("--threads", type=int, required=True, help="threads of one rank")
    parser.add_argument("--index", type=int, default=0, help="index of the device")
    parser.add_argument("--stages", type=int, required=True, help="most stages in which backward gives its gradients")
    parser.add_argument("--least", type=int, required=True, help="fewest bytes of gradients of a stage")
    parser.add_argument("--limit", type=int, required=True, help="seconds after which SIGALRM ends this process")
    asked = parser.parse_args()
    signal.alarm(asked.limit)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # Ends with the rank that waits for the package.
    try:
        import torch

        if (found := torch.__version__.partition("+")[0]) != asked.torch:
            raise RuntimeError(f"its PyTorch is {found}, this Lockstep's is {asked.torch}")
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
        from lockstep_host import passes

        compile_traced(torch, passes, asked)
    except Exception as error:  # After any error the training goes on with the plain network.
        traceback.print_exc()
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        print(f"{type(error).__name__}: {lines[0].strip()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
