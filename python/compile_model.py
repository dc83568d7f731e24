#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles how a model trains, ahead of time, for Lockstep's C++ trainer:

    python compile_model.py MODEL OUT.pt2 --batch 256 --shape 3,224,224 [--precision bf16] [--set name=value]...

MODEL is FILE.py:CLASS, or PACKAGE.MODULE:NAME of something that is installed: torchvision.models:resnet50. TorchInductor, which
torch.compile uses, makes a forward and a backward pass of it for batches of one shape, where this runs: on the kind of device that will
train, with the PyTorch that Lockstep is built against. Then

    lockstep train RECIPE --set model.compiled=OUT.pt2

trains the recipe's own network with it, whose parameters must have the same names and shapes: a built-in network as torchvision's, or
what export_model.py exported. --batch is of one rank. OUT.pt2 holds machine code: run only what you or those you trust have made.
"""
import argparse
import contextlib
import importlib
import json
import os
import pathlib
import tempfile

import export_model
from export_model import fail

DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16")


def maker_of(where):
    if pathlib.Path(where.rpartition(":")[0]).is_file():
        return export_model.class_of(where)
    module, colon, name = where.rpartition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        fail(f"'{where}' names nothing that is here: {error}", "write it as net.py:Net or torchvision.models:resnet50")


def described(name, tensor):
    return {"name": name, "dtype": DTYPES[str(tensor.dtype).rpartition(".")[2]], "shape": list(tensor.shape), "stride": list(tensor.stride())}


def passes_of(torch, model, batch, narrow):
    """The graphs of forward and backward, each with example inputs; the order of inputs: parameters, buffers, the batch."""
    import torch._inductor.lowering  # The table of decompositions needs it.
    from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())

    def forward(*inputs):
        own = dict(zip(parameters, inputs))
        # Returned, and not changed where they are: who runs this knows where they lie.
        running = {name: value.clone() for name, value in zip(buffers, inputs[len(parameters):])}
        with torch.autocast(batch.device.type, dtype=narrow, enabled=narrow is not None, cache_enabled=False):
            out = torch.func.functional_call(model, (own, running), (inputs[-1],))
        return (out, *running.values())

    found = {}

    def keep(which):
        def compiler(graph, inputs):
            found[which] = (graph, list(inputs))
            return make_boxed_func(graph.forward)
        return compiler

    function = aot_function(forward, fw_compiler=keep("forward"), bw_compiler=keep("backward"),
                            partition_fn=min_cut_rematerialization_partition, decompositions=select_decomp_table())
    inputs = [*(each.detach().requires_grad_() for each in parameters.values()), *(each.detach() for each in buffers.values()), batch]
    out = function(*inputs)[0]
    out.backward(torch.ones_like(out))
    return found


def without_none(graph):
    """Leaves out what a graph does not give; returns the places of what is left."""
    (output,) = graph.graph.find_nodes(op="output")
    every = list(output.args[0])
    kept = [place for place, each in enumerate(every) if each is not None]
    output.args = (tuple(every[place] for place in kept),)
    graph.recompile()
    return kept


def real_inputs(torch, inputs):
    if any(not isinstance(each, torch.Tensor) for each in inputs):
        fail("the model's sizes depend on its input", "only models with one shape for all batches can be compiled")
    return [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device) for each in inputs]


def compile_model(torch, model, batch, precision, out):
    from torch._inductor.compile_fx import compile_fx_aot
    from torch._inductor.package import package_aoti

    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    found = passes_of(torch, model, batch, narrow)
    parameters = [described(name, each) for name, each in model.named_parameters()]
    gradients = without_none(found["backward"][0])
    if any(place >= len(parameters) for place in gradients):
        fail("the batch or a buffer has a gradient", "a model must not ask for one")
    facts = {"torch": torch.__version__.partition("+")[0], "device": batch.device.type, "precision": "fp32" if precision == "tf32" else precision,
             "parameters": parameters, "buffers": [described(name, each) for name, each in model.named_buffers()],
             "batch": described("", batch), "tangent": described("", found["backward"][1][-1]), "gradients": gradients}
    files = {}
    for which, (graph, inputs) in found.items():
        options = {"aot_inductor.package": True}
        if which == "forward":
            options["aot_inductor.metadata"] = {"lockstep": json.dumps(facts)}
        files[which] = compile_fx_aot(graph, real_inputs(torch, inputs), config_patches=options)
    partial = out.with_name(out.name.removesuffix(".pt2") + ".partial.pt2")
    package_aoti(str(partial), files)
    partial.replace(out)


@contextlib.contextmanager
def cuda_for_the_linker(torch):
    """Inductor takes CUDA's headers from a toolkit and links with -lcuda. Where there is none, pip's packages have the headers; and a
    driver comes as libcuda.so.1, without the name that a linker looks for."""
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None:
        packages = pathlib.Path(torch.__file__).parents[1] / "nvidia"
        cpp_extension.CUDA_HOME = next((str(header.parents[1]) for header in packages.glob("cu*/include/cuda.h")), None)
    driver = next((line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libcuda.so" in line), None)
    with tempfile.TemporaryDirectory() as folder:
        if driver:
            pathlib.Path(folder, "libcuda.so").symlink_to(driver)
            os.environ["LIBRARY_PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("LIBRARY_PATH")])])
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.pt2")
    parser.add_argument("--batch", type=int, required=True, help="samples of one rank")
    parser.add_argument("--shape", required=True, help="of one sample: 3,224,224")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="as trainer.precision")
    parser.add_argument("--channels-last", choices=("auto", "on", "off"), default="auto", help="as trainer.channels_last")
    parser.add_argument("--device", help="by default a GPU where there is one")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    settings = export_model.settings_of(given.set)
    if given.out.suffix != ".pt2":
        fail(f"'{given.out}' does not end with .pt2", "PyTorch wants its packages called so")

    import torch  # After the arguments: it takes seconds.

    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float64 if given.precision == "fp64" else torch.float32
    torch.manual_seed(0)
    model = maker_of(given.model)(**settings).to(device, dtype).train()
    batch = torch.rand(given.batch, *map(int, given.shape.split(",")), device=device, dtype=dtype)
    by_itself = given.precision in ("bf16", "fp16") or (given.precision == "tf32" and device != "cpu")
    if given.channels_last == "on" or (given.channels_last == "auto" and by_itself):
        # As Lockstep does: weights of four dimensions, and images.
        for each in model.parameters():
            if each.dim() == 4:
                each.data = each.data.contiguous(memory_format=torch.channels_last)
        if batch.dim() == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
    if given.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    with cuda_for_the_linker(torch) if device == "cuda" and torch.version.cuda else contextlib.nullcontext():
        compile_model(torch, model, batch, given.precision, given.out)
    print(f"{given.out}: {given.model} on {device}, {given.precision}, batches of {list(batch.shape)}")


if __name__ == "__main__":
    main()
