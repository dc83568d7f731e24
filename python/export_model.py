#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a Python model for Lockstep's C++ trainer.

    python export_model.py FILE.py:CLASS OUT.pt [--set name=value]...

FILE.py defines CLASS, a torch.nn.Module. --set passes numbers, true, false or text to its constructor. Then train the model:

    lockstep train RECIPE --set model.name=script:OUT.pt

`lockstep snapshot export RUN --to weights.pt --weights` writes the weights for CLASS(...).load_state_dict().
The model is scripted and not traced, because a traced model's dropout and batch normalisation stay in one mode for ever.
This program needs nothing but PyTorch.
"""
import argparse
import ast
import importlib.util
import pathlib
import sys


def fail(fact, hint):
    print(f"{pathlib.Path(sys.argv[0]).stem}: error: {fact}\n  hint: {hint}", file=sys.stderr)
    sys.exit(2)


def value_of(text):
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def settings_of(pairs):
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            fail(f"--set {pair} sets nothing", "write it as --set width=128")
        settings[name] = value_of(text)
    return settings


def class_of(where):
    file, colon, name = where.rpartition(":")
    if not colon or not pathlib.Path(file).is_file():
        fail(f"'{where}' names no class in a file", "write it as net.py:Net")
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location("exported", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["exported"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        fail(f"'{file}' has no class {name}", "it has " + ", ".join(sorted(n for n, v in vars(module).items() if isinstance(v, type))))
    return getattr(module, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="FILE.py:CLASS")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.pt")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    settings = settings_of(given.set)

    import torch  # Takes seconds, so the arguments are checked first.

    model = class_of(given.model)(**settings)
    if not isinstance(model, torch.nn.Module):
        fail(f"{given.model} makes a {type(model).__name__}, want a torch.nn.Module", "name the model's class")
    try:
        script = torch.jit.script(model.train())
    except Exception as error:  # TorchScript's errors have no common base class.
        fail(f"TorchScript cannot take {given.model}:\n{error}",
             "rewrite the line that it names in the Python that TorchScript knows, or train the class as it is: "
             f"model.name = \"python:{given.model}\"")
    partial = given.out.with_name(given.out.name + ".partial")
    script.save(str(partial))
    partial.replace(given.out)
    parameters = {id(p): p.numel() for p in model.parameters()}
    print(f"{given.out}: {sum(parameters.values())} parameters in {len(parameters)} tensors")


if __name__ == "__main__":
    main()
