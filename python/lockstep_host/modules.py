# SPDX-License-Identifier: Apache-2.0
"""Finds, builds and checks the module that a recipe names."""
import inspect
import random
import sys

import torch

from lockstep_host.errors import RECIPE, Refusal, told
from lockstep_host import steps as own
from lockstep_host.names import called, found, named_parameters_of, signature_of, takes_any

CLASSES = ("num_classes", "num_labels")


def with_classes(name, make, arguments, classes, unnamed="num_classes"):
    """Calls `make` with the data's number of classes, if its signature names one. `unnamed` is the name to try if it takes any."""
    signature = signature_of(make)
    if any(each in arguments for each in CLASSES):
        return called(name, make, signature, arguments)
    for each in CLASSES:
        if each in named_parameters_of(signature):
            return called(name, make, signature, arguments | {each: classes})
    if not takes_any(signature):
        return called(name, make, signature, arguments)
    # torchvision's functions take **kwargs and hand them on to the class.
    seed = torch.initial_seed()
    try:
        return called(name, make, signature, arguments | {unnamed: classes})
    except TypeError as error:
        if unnamed not in str(error):
            raise
        torch.manual_seed(seed)
        return called(name, make, signature, arguments)


def built(source, name, arguments, classes):
    make = found(source, name)
    config = getattr(make, "config_class", None)
    if config is not None and inspect.isclass(make) and "config" not in arguments:
        # A model of Hugging Face takes its settings as one object.
        module = make(with_classes(config.__name__, config, arguments, classes, "num_labels"))
    else:
        module = with_classes(name, make, arguments, classes)
    if not isinstance(module, torch.nn.Module):
        raise Refusal(RECIPE, f"{name} of '{source}' gives {type(module).__name__}, want a torch.nn.Module",
                      "name a class that derives from torch.nn.Module, or a function that returns one")
    return module


def seed_other_generators(seed):
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def output_of(output):
    """Returns the tensor for the loss from the output of a module: `logits` or `out`, else the first tensor. Raises TypeError without one."""
    if isinstance(output, torch.Tensor):
        return output
    for name in ("logits", "out"):
        value = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(value, torch.Tensor):
            return value
    values = list(output.values()) if isinstance(output, dict) else list(output) if isinstance(output, (list, tuple)) else []
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
    raise TypeError(f"forward() returns {type(output).__name__}, want a tensor, or a dict, tuple or list that holds one")


def steps_of(module, names):
    """Returns the module's own steps, or None if it has none. A LightningModule creates its late layers during this call."""
    steps = own.steps_of(module, names)
    own.set_up(module)
    if steps is not None:
        steps.attach()
    return steps


def is_lazy(module):
    return any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in module.parameters())


def require_fit(module, shape, classes, takes_text, steps):
    """Runs forward on two samples of zeros, which creates lazy layers. Raises Refusal if the shapes do not fit, or without a parameter to
    train. The output is not checked if the module's own steps use it."""
    trains_itself = steps is not None and steps.has_training_step
    if not trains_itself or is_lazy(module) or (not steps.has_validation_step and own.has(steps.module, "forward")):
        require_shape(module, shape, classes, takes_text, may_differ=trains_itself and steps.has_validation_step)
    if not any(each.requires_grad for each in module.parameters()):
        raise Refusal(RECIPE, f"{type(module).__name__} has no parameter to train",
                      "is each layer an attribute of the module, not in a plain list?")


def require_shape(module, shape, classes, takes_text, may_differ):
    batch = [2, *shape]
    wanted = [*batch, classes] if takes_text else [2, classes]
    name = type(module).__name__
    module.eval()
    try:
        with torch.no_grad():
            output = module(torch.zeros(batch, dtype=torch.long if takes_text else torch.get_default_dtype()))
            output = None if may_differ else output_of(output)
    except Exception as error:
        raise Refusal(RECIPE, f"{name} cannot take a batch of {batch}: {told(error)}",
                      "give it the data set's shape, or change the data with data.transforms") from None
    module.train()
    if output is not None and list(output.shape) != wanted:
        raise Refusal(RECIPE, f"{name} makes {list(output.shape)} of a batch of {batch}, the data set's "
                      f"{'text' if takes_text else 'classes'} want {wanted}",
                      f"give its last layer {classes} outputs" + (" for each place of the text" if takes_text else ""))


def loss(source, name):
    """Returns the function that `loss.name` names. It raises TypeError if its result is not one number as a tensor."""
    function = found(source, name)
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        function = function()

    def checked(output, target):
        value = function(output, target)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            shape = f"a tensor of {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            raise TypeError(f"{name}() returns {shape}, want one number as a tensor: the mean over the batch's samples")
        return value.reshape(())
    return checked


def metric(source, name):
    """Returns a function that [metrics] names. It raises TypeError if its result is neither one number nor one number a sample."""
    function = found(source, name)
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        function = function()

    def checked(output, target):
        value = function(output, target)
        value = value if isinstance(value, torch.Tensor) else torch.as_tensor(value, dtype=torch.float64)
        if value.numel() == 1:
            return value.reshape(())
        if list(value.shape) != [len(output)]:
            raise TypeError(f"{name}() returns a tensor of {list(value.shape)}, want one number, the mean over the batch's samples, or "
                            f"[{len(output)}], one for each sample")
        return value
    return checked
