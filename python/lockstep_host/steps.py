# SPDX-License-Identifier: Apache-2.0
"""Calls the steps of a class such as a LightningModule, and describes its configure_optimizers() to the trainer."""
import inspect
import os
import re
import sys

import torch

from lockstep_host import optimizers
from lockstep_host.errors import RECIPE, Refusal

METHODS = ("training_step", "validation_step", "configure_optimizers")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
# Hooks of Lightning that change the training. A class with one of them is refused, because they are not called here.
DECISIVE = ("backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "lr_scheduler_step",
            "transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer")
INDEX = re.compile("idx|index|step|number|^_|^i$")
OWN_LOOP = "keep your own loop: `import lockstep` gives it stop, resume and snapshots with three lines"


def tell(text):
    if os.environ.get("RANK", "0") == "0":
        print(f"lockstep: warning: {text}", file=sys.stderr)


def is_lightnings(owner):
    return owner.__module__.partition(".")[0] in LIGHTNING


def definer(module, name):
    """Returns the class that defines a method, or None if that class belongs to Lightning or is torch.nn.Module."""
    for each in type(module).__mro__:
        if name in vars(each):
            return None if is_lightnings(each) or each is torch.nn.Module else each
    return None


def has(module, name):
    return definer(module, name) is not None and callable(getattr(module, name))


def is_lightning_module(module):
    return any(is_lightnings(each) and each.__name__ == "LightningModule" for each in type(module).__mro__)


class Trainer:
    """The object that a LightningModule gets as `self.trainer`. It holds facts about this training, and has no method of Lightning's."""

    def __init__(self):
        self.current_epoch = self.global_step = 0
        self.max_epochs = self.max_steps = -1
        self.num_training_batches = self.estimated_stepping_batches = float("inf")
        self.steps_per_epoch, self.accumulate_grad_batches = 0, 1
        self.training = self.validating = self.testing = self.predicting = self.sanity_checking = self.fast_dev_run = False
        self.global_rank, self.world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.is_global_zero = self.global_rank == 0
        self.logger = self.progress_bar_callback = self.datamodule = None
        self.loggers, self.callbacks = [], []

    def __getattr__(self, name):
        known = ", ".join(sorted(each for each in vars(self) if not each.startswith("_")))
        raise AttributeError(f"self.trainer.{name}: Lockstep trains, not Lightning's Trainer; self.trainer has {known}")


class Steps:
    """Calls the methods of METHODS that a module has, in the way that Lightning calls them. Raises Refusal if that is not possible."""

    def __init__(self, module, names):
        self.module, self.names = module, names
        self.name = type(module).__name__
        self.logged, self.rows = [], 0
        self.has_training_step, self.has_validation_step, self.has_optimizer = (has(module, each) for each in METHODS)
        self.has_optimizer = self.has_optimizer and self.needs_nothing("configure_optimizers")
        self.require_automatic()
        self.trainer = Trainer()
        self.attach()  # modules.steps_of() calls it again for layers that are created later.
        self.takes = {each: self.parameters_of(each) for each in METHODS[:2]}

    def needs_nothing(self, name):
        """Returns True if a method can be called without arguments. Some classes have a method of that name for a loop of their own."""
        signature = inspect.signature(getattr(self.module, name))
        try:
            signature.bind()
        except TypeError:
            tell(f"{self.name}.{name}{signature} takes arguments: not called; [optimizer] and [scheduler] say what happens")
            return False
        return True

    def require_automatic(self):
        if self.has_training_step and getattr(self.module, "automatic_optimization", True) is False:
            raise Refusal(RECIPE, f"{self.name} sets automatic_optimization = False: it makes its steps itself, which the trainer cannot",
                          OWN_LOOP)
        if not self.has_training_step:
            return
        changed = [each for each in DECISIVE if is_lightning_module(self.module) and has(self.module, each)]
        if changed:
            raise Refusal(RECIPE, f"{self.name} has {', '.join(changed)}: not called here, and training would differ without",
                          f"leave it out, as [trainer] has clip_norm, accumulate and precision, or {OWN_LOOP}")

    def attach(self):
        """Sets self.log(), self.log_dict() and self.trainer in the module and in the modules within it."""
        for module in self.module.modules():
            for name, function in (("log", self.log), ("log_dict", self.log_dict)):
                if not has(module, name) and (module is self.module or is_lightning_module(module)):
                    object.__setattr__(module, name, function)
            if is_lightning_module(module):
                object.__setattr__(module, "_trainer", self.trainer)

    def parameters_of(self, name):
        """Returns how many of (batch, batch_idx) a step takes: 0, 1 or 2. Raises Refusal for other arguments, such as (images, labels)."""
        if not has(self.module, name):
            return 0
        signature = inspect.signature(getattr(self.module, name))
        parameters = list(signature.parameters.values())
        places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        needed = [each.name for each in parameters if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        is_index = is_lightning_module(self.module) or len(needed) < 2 or INDEX.search(needed[1])
        if len(needed) > 2 or not is_index or (not places and needed):
            raise Refusal(RECIPE, f"{self.name} has {name}{signature}, want (batch, batch_idx)",
                          'give it these, or set model.steps = "recipe" to train by forward and [loss]')
        return 2 if any(each.kind is each.VAR_POSITIONAL for each in parameters) else min(2, len(places))

    def tell_what_is_not_called(self):
        """Warns of hooks that are not called. They only watch the training, but the user should learn of it early."""
        if not is_lightning_module(self.module):
            return
        hooks = [each for each in dir(type(self.module)) if each.startswith("on_") or each in ("train_dataloader", "val_dataloader", "test_step",
                                                                                             "predict_step", "prepare_data", "teardown")]
        left = [each for each in hooks if each not in DECISIVE and has(self.module, each)]
        if left:
            tell(f"{self.name} has {', '.join(left)}: not called")

    def log(self, name, value, *_, reduce_fx="mean", batch_size=None, **_options):
        if reduce_fx not in ("mean", torch.mean):
            raise ValueError(f"self.log({name!r}, reduce_fx={reduce_fx!r}): a metric here is the mean over samples; log one that is")
        if batch_size is not None and batch_size != self.rows:
            raise ValueError(f"self.log({name!r}, batch_size={batch_size}): the batch has {self.rows} samples, which its mean is over")
        if not isinstance(value, torch.Tensor):
            if hasattr(value, "compute") and hasattr(value, "update"):
                raise TypeError(f"self.log({name!r}, {type(value).__name__}): log a number: self.log({name!r}, metric(output, target))")
            value = torch.as_tensor(value, dtype=torch.float64)
        if value.numel() != 1:
            raise ValueError(f"self.log({name!r}) gets a tensor of {list(value.shape)}, want one number: the mean over the batch's samples")
        self.logged.append((name, value.detach().reshape(())))

    def log_dict(self, dictionary, *_, **options):
        for name, value in dictionary.items():
            self.log(name, value, **options)

    def call(self, name, fields, epoch, index):
        trainer = self.trainer
        trainer.current_epoch = epoch
        self.rows = len(fields[0])
        self.logged = []
        if getattr(self.module, "_device", None) != fields[0].device and is_lightning_module(self.module):
            self.module._device = fields[0].device
        batch = fields if self.names is None else dict(zip(self.names, fields))
        result = getattr(self.module, name)(*(batch, index)[:self.takes[name]])
        loss = result.get("loss") if isinstance(result, dict) else result
        return loss, self.logged

    def training_step(self, fields, epoch, index):
        trainer = self.trainer
        trainer.global_step = epoch * trainer.steps_per_epoch + index // trainer.accumulate_grad_batches
        trainer.training = True
        try:
            loss, logged = self.call("training_step", fields, epoch, index)
        finally:
            trainer.training = False
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f"a tensor of {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise TypeError(f"{self.name}.training_step() returns {what}, want the loss, or a dict with 'loss': one number as a tensor, the mean "
                            "over the batch's samples. A batch cannot be skipped, since all ranks take each step together")
        return loss.reshape(()), logged

    def validation_step(self, fields, epoch, index):
        self.trainer.validating = True
        try:
            loss, logged = self.call("validation_step", fields, epoch, index)
        finally:
            self.trainer.validating = False
        return (loss.reshape(()) if isinstance(loss, torch.Tensor) and loss.numel() == 1 else None), logged

    def begin(self, epochs, steps_per_epoch, steps, batches_per_step):
        """Sets the length of the training that follows in self.trainer. 0 epochs or steps mean no limit."""
        trainer = self.trainer
        trainer.max_epochs, trainer.max_steps = epochs or -1, steps or -1
        trainer.steps_per_epoch, trainer.accumulate_grad_batches = steps_per_epoch, batches_per_step
        trainer.num_training_batches = steps_per_epoch * batches_per_step
        trainer.estimated_stepping_batches = steps or float("inf")

    def optimizer(self):
        return optimizers.described(self.name, self.module, self.module.configure_optimizers())


def steps_of(module, names):
    """Returns the module's own steps, or None if it has none."""
    inner = getattr(module, "_orig_mod", module)
    if not any(has(inner, each) for each in METHODS):
        return None
    steps = Steps(inner, names)
    steps.tell_what_is_not_called()
    return steps


def set_up(module):
    """Calls configure_model() and setup("fit"), in which a LightningModule may create layers."""
    inner = getattr(module, "_orig_mod", module)
    if not is_lightning_module(inner):
        return
    for name, arguments in (("configure_model", ()), ("setup", ("fit",))):
        if has(inner, name):
            getattr(inner, name)(*arguments)
