# SPDX-License-Identifier: Apache-2.0
"""Loads the trainer into a Python interpreter and runs it: PYTHON lockstep_host LIBRARIES TORCH train RECIPE …

lockstep-train starts this program. LIBRARIES is a list of folders, joined by colons, that may hold the extension module for this
interpreter. TORCH is the version of PyTorch that the extension module was built for. Exits with 4 if the two do not fit.
"""
import importlib.machinery
import importlib.util
import os
import sys


def refuse(fact, hint):
    print(f"lockstep: error: {fact}\n  hint: {hint}", file=sys.stderr)
    sys.exit(4)


def loaded(folders, wanted):
    build = f"build the trainer for it: lockstep setup --python {sys.executable}"
    try:
        import torch
    except ImportError as error:
        refuse(f"the Python '{sys.executable}' cannot import torch: {error}",
               "activate the environment that has your PyTorch, or set LOCKSTEP_PYTHON to its Python")
    found = torch.__version__.split("+")[0]
    if found != wanted:
        refuse(f"the PyTorch of '{sys.executable}' is {found}, this trainer was built for {wanted}", build)
    name = f"liblockstep_python{sys.version_info[0]}{sys.version_info[1]}.so"
    for folder in folders.split(":"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            break
    else:
        refuse(f"there is no {name} in {folders.replace(':', ' nor in ')}", build)
    loader = importlib.machinery.ExtensionFileLoader("lockstep_trainer", path)
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
    except ImportError as error:
        refuse(f"'{path}' cannot be loaded: {error}", build)
    return module


def main():
    _, folders, torch_version, *arguments = sys.argv
    host = os.path.dirname(os.path.abspath(__file__))
    # The user's modules come from the current folder, as with `python -m`.
    sys.path[0] = os.getcwd()
    sys.path.append(os.path.dirname(host))
    # Standard output is for Lockstep's results alone, so Python's prints go to standard error.
    sys.stdout = sys.stderr
    sys.exit(loaded(folders, torch_version).run(["lockstep-train", *arguments]))


if __name__ == "__main__":
    main()
