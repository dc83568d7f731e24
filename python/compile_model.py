#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the forward and backward pass of a model ahead of time, for Lockstep's C++ trainer.

    python compile_model.py MODEL OUT.pt2 --batch 256 --shape 3,224,224 [--precision bf16] [--set name=value]...

MODEL is FILE.py:CLASS, or PACKAGE.MODULE:NAME of an installed package, such as torchvision.models:resnet50. TorchInductor, which
torch.compile uses too, compiles both passes for batches of one shape. Run this program on the kind of device that will train, with
the PyTorch that Lockstep is built against. Then train the recipe's own network with the compiled passes:

    lockstep train RECIPE --set model.compiled=OUT.pt2

That network must have parameters of the same names and shapes. A built-in network has those of torchvision's, and a network from
export_model.py has those of its class. OUT.pt2 holds machine code, so use only a file that you or people you trust have made.
"""
import argparse
import contextlib
import importlib
import pathlib

import export_model
from export_model import fail
from lockstep_host import passes


def maker_of(where):
    if pathlib.Path(where.rpartition(":")[0]).is_file():
        return export_model.class_of(where)
    module, colon, name = where.rpartition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        fail(f"'{where}' names no model that can be imported: {error}", "write it as net.py:Net or torchvision.models:resnet50")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.pt2")
    parser.add_argument("--batch", type=int, required=True, help="samples of one rank")
    parser.add_argument("--shape", required=True, help="shape of one sample, such as 3,224,224")
    parser.add_argument("--precision", choices=passes.PRECISIONS, default="fp32", help="as trainer.precision")
    parser.add_argument("--channels-last", choices=("auto", "on", "off"), default="auto", help="as trainer.channels_last")
    parser.add_argument("--device", help="device to compile for; by default a GPU if there is one, else the CPU")
    parser.add_argument("--stages", type=int, default=passes.MOST_STAGES,
                        help="most stages in which backward hands over its gradients; 1 is best for a single rank")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    settings = export_model.settings_of(given.set)
    if given.out.suffix != ".pt2":
        fail(f"'{given.out}' does not end with .pt2", "PyTorch requires that suffix for its packages")

    import torch  # Takes seconds, so the arguments are checked first.

    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float64 if given.precision == "fp64" else torch.float32
    torch.manual_seed(0)
    model = maker_of(given.model)(**settings).to(device, dtype).train()
    batch = torch.rand(given.batch, *map(int, given.shape.split(",")), device=device, dtype=dtype)
    by_itself = given.precision in ("bf16", "fp16") or (given.precision == "tf32" and device != "cpu")
    if given.channels_last == "on" or (given.channels_last == "auto" and by_itself):
        # Lockstep does the same with images, and with weights of four dimensions.
        for each in model.parameters():
            if each.dim() == 4:
                each.data = each.data.contiguous(memory_format=torch.channels_last)
        if batch.dim() == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
    if given.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    with passes.cuda_for_the_linker(torch) if device == "cuda" and torch.version.cuda else contextlib.nullcontext():
        try:
            made = passes.compile_passes(torch, lambda own, running, inputs: torch.func.functional_call(model, (own, running), (inputs,)),
                                         dict(model.named_parameters()), dict(model.named_buffers()), batch, given.precision, given.out,
                                         given.stages)
        except passes.CannotCompile as error:
            fail(error, error.hint)
    print(f"{given.out}: {given.model} on {device}, {given.precision}, batches of {list(batch.shape)}, backward in "
          f"{len(made['stages'])} stages")


if __name__ == "__main__":
    main()
