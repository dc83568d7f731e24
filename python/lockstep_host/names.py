# SPDX-License-Identifier: Apache-2.0
"""Finds the class or function that a recipe names, and calls it with the recipe's arguments. This module needs no PyTorch."""
import importlib
import importlib.util
import inspect
import pathlib
import sys

from lockstep_host.errors import IO, RECIPE, Refusal, nearest


def source_module(source):
    """Imports the Python module with this path of a file, or with this name. Raises Refusal if there is no such file or module."""
    if not source.endswith(".py"):
        try:
            return importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name and not (source + ".").startswith(error.name + "."):
                raise
            raise Refusal(RECIPE, f"{sys.executable} finds no module '{source}'",
                          "install it there; a file is named with its .py: python:net.py:Net") from None
    path = pathlib.Path(source)
    if not path.is_file():
        near = nearest(path.name, (each.name for each in path.parent.glob("*.py")))
        raise Refusal(IO, f"there is no file '{source}'", f"did you mean '{near}'?" if near else "a path is relative to the recipe")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    name = path.stem if known is None else f"lockstep_file_{path.stem}"
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def found(source, name):
    """Returns the class or function `name` of a file or module. Raises Refusal if there is none."""
    module = source_module(source)
    value = getattr(module, name, None)
    if callable(value):
        return value
    names = [each for each in vars(module) if not each.startswith("_") and callable(getattr(module, each))]
    near = nearest(name, names)
    if value is not None:
        raise Refusal(RECIPE, f"'{name}' in '{source}' is {type(value).__name__}, want a class or function",
                      "name the class itself, or a function that builds it")
    raise Refusal(RECIPE, f"'{source}' has no class or function '{name}'",
                  f"did you mean '{near}'?" if near else "it has " + ", ".join(sorted(names)[:8]))


def signature_of(make):
    try:
        return inspect.signature(make)
    except (TypeError, ValueError):
        return None


def named_parameters_of(signature):
    return [] if signature is None else [name for name, each in signature.parameters.items()
                                         if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def takes_any(signature):
    return signature is not None and any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())


def called(name, make, signature, arguments, table="model.args"):
    if signature is not None:
        try:
            signature.bind(**arguments)
        except TypeError as error:
            taken = named_parameters_of(signature)
            near = next(filter(None, (nearest(each, taken) for each in arguments if each not in taken)), None)
            raise Refusal(RECIPE, f"{name} does not take these [{table}]: {error}; it is {name}{signature}",
                          f"did you mean '{near}'?" if near else f"[{table}] go to it by name, as they are") from None
    return make(**arguments)
