# SPDX-License-Identifier: Apache-2.0
"""Describes the result of configure_optimizers() to the trainer in plain values. The method has the form that Lightning defines.

The trainer's own optimizer of the same name takes the settings and the parameter groups. A scheduler stays in Python and gives the
learning rates, which depend on the number of its steps alone. The trainer has its own ReduceLROnPlateau, because those rates depend
on a metric.
"""
import copy

import torch

from lockstep_host.errors import RECIPE, Refusal, nearest

SETTINGS = {"sgd": ("lr", "momentum", "dampening", "weight_decay", "nesterov"), "adam": ("lr", "betas", "eps", "weight_decay", "amsgrad")}
# Settings that change how an optimizer computes, but not its result.
WAYS = ("foreach", "fused", "capturable", "differentiable")
SCHEDULER_KEYS = ("scheduler", "interval", "frequency", "monitor", "strict", "name", "reduce_on_plateau")


def refuse(name, fact, hint):
    raise Refusal(RECIPE, f"{name}.configure_optimizers() {fact}", hint)


def parts_of(name, given):
    """Returns the optimizer and the scheduler, in any form that Lightning accepts. The scheduler is a dict, or None."""
    if isinstance(given, (list, tuple)) and len(given) == 2 and all(isinstance(each, (list, tuple)) for each in given):
        optimizers, schedulers = list(given[0]), list(given[1])
    else:
        optimizers = list(given) if isinstance(given, (list, tuple)) else [given]
        schedulers = []
        for place, each in enumerate(optimizers):
            if isinstance(each, dict):
                if "optimizer" not in each:
                    refuse(name, f"returns a dict of {', '.join(map(str, each))}", "name its optimizer 'optimizer', and its scheduler 'lr_scheduler'")
                optimizers[place] = each["optimizer"]
                schedulers += [each["lr_scheduler"]] if each.get("lr_scheduler") is not None else []
    if len(optimizers) != 1:
        refuse(name, f"returns {len(optimizers)} optimizers, want one",
               "put all parameters into groups of one optimizer; a training with several is a loop of your own: `import lockstep`")
    if len(schedulers) > 1:
        refuse(name, f"returns {len(schedulers)} schedulers, want one", "join them: torch.optim.lr_scheduler.SequentialLR or ChainedScheduler")
    scheduler = schedulers[0] if schedulers else None
    return optimizers[0], scheduler if scheduler is None or isinstance(scheduler, dict) else {"scheduler": scheduler}


def kind_of(name, optimizer):
    torch_optim = torch.optim
    for kind, known in (("sgd", torch_optim.SGD), ("adamw", torch_optim.AdamW), ("adam", torch_optim.Adam)):
        if type(optimizer) is known:
            return kind
    what = "no optimizer" if optimizer is None else type(optimizer).__name__
    return refuse(name, f"returns {what}, want torch.optim.SGD, Adam or AdamW itself",
                  "the trainer has these three; any other optimizer trains in a loop of your own: `import lockstep`")


def group_of(name, kind, given, names):
    if given.get("maximize"):
        refuse(name, "sets maximize = True", "return the loss with the other sign instead")
    if kind == "adam" and given.get("decoupled_weight_decay"):
        kind = "adamw"
    settings = {each: given[each] for each in SETTINGS["sgd" if kind == "sgd" else "adam"]}
    settings["lr"] = float(settings["lr"])
    if "betas" in settings:
        settings["betas"] = [float(each) for each in settings["betas"]]
    for each in given["params"]:
        if id(each) not in names:
            refuse(name, f"gives the optimizer a tensor of {list(each.shape)} that is no parameter of the model",
                   "assign it to the module as a torch.nn.Parameter")
    return {"name": kind, "params": [each for each in given["params"] if each.requires_grad], **settings}


class Rates:
    """Gives the learning rates and momenta after a number of steps, by letting the scheduler take that many steps."""

    def __init__(self, scheduler, optimizer, places, frequency):
        self.scheduler, self.optimizer, self.places, self.frequency = scheduler, optimizer, places, frequency
        self.steps, self.moves = 0, False
        # A scheduler warns if its optimizer has taken no step. This optimizer never takes one, because the trainer updates the weights.
        optimizer._opt_called = True
        self.numbers = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        self.first = copy.deepcopy((scheduler.state_dict(), self.numbers))
        self.momenta = [self.momentum(group) for group in optimizer.param_groups]

    @staticmethod
    def momentum(group):
        return float(group["betas"][0] if "betas" in group else group["momentum"])

    def begin_again(self):
        state, numbers = copy.deepcopy(self.first)
        self.scheduler.load_state_dict(state)
        for group, each in zip(self.optimizer.param_groups, numbers):
            group.update(each)
        self.steps = 0

    def __call__(self, t):
        t //= self.frequency
        if t < self.steps:
            self.begin_again()
        while self.steps < t:
            self.scheduler.step()
            self.steps += 1
        groups = self.optimizer.param_groups
        self.moves = self.moves or any(self.momentum(groups[place]) != self.momenta[place] for place in self.places)
        return [(float(groups[place]["lr"]), self.momentum(groups[place]) if self.moves else None) for place in self.places]


def plateau_of(name, scheduler, given):
    if scheduler.threshold_mode != "rel":
        refuse(name, f"has ReduceLROnPlateau(threshold_mode={scheduler.threshold_mode!r}), want 'rel'", "give a relative threshold")
    smallest = getattr(scheduler, "min_lrs", [0])
    if len(set(smallest)) > 1:
        refuse(name, f"has ReduceLROnPlateau(min_lr={smallest}), want one number", "give all groups one min_lr")
    if "monitor" not in given:
        refuse(name, "has ReduceLROnPlateau without a metric", '"lr_scheduler": {"scheduler": …, "monitor": "val_loss"} names it')
    return {"monitor": given["monitor"], "wants_max": scheduler.mode == "max", "factor": scheduler.factor, "patience": scheduler.patience,
            "threshold": scheduler.threshold, "cooldown": scheduler.cooldown, "min_lr": float(smallest[0])}


def schedule_of(name, given, optimizer, places):
    unknown = next((each for each in given if each not in SCHEDULER_KEYS), None)
    if unknown is not None:
        near = nearest(str(unknown), SCHEDULER_KEYS)
        refuse(name, f"has '{unknown}' beside its scheduler", f"did you mean '{near}'?" if near else f"want {', '.join(SCHEDULER_KEYS)}")
    scheduler, interval, frequency = given.get("scheduler"), given.get("interval", "epoch"), given.get("frequency", 1)
    if interval not in ("epoch", "step"):
        refuse(name, f"has a scheduler with interval {interval!r}, want 'epoch' or 'step'", "set interval to what the scheduler counts")
    if not isinstance(frequency, int) or frequency < 1:
        refuse(name, f"has a scheduler with frequency {frequency!r}, want a whole number from 1 on", "leave it out for 1")
    is_plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    if not is_plateau and not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        refuse(name, f"has the scheduler {type(scheduler).__name__}, want one of torch.optim.lr_scheduler",
               "LambdaLR makes one of any function of the number of steps")
    if scheduler.optimizer is not optimizer:
        refuse(name, f"has a {type(scheduler).__name__} of another optimizer than the one it returns", "create the scheduler with the optimizer that is returned")
    if is_plateau:
        if interval != "epoch" or frequency != 1:
            refuse(name, "has ReduceLROnPlateau that is not asked at each validation", "leave out interval and frequency")
        return {"by_step": False, "plateau": plateau_of(name, scheduler, given)}
    if given.get("reduce_on_plateau"):
        refuse(name, f"has a {type(scheduler).__name__} with reduce_on_plateau", "want torch.optim.lr_scheduler.ReduceLROnPlateau")
    return {"by_step": interval == "step", "rates": Rates(scheduler, optimizer, places, frequency)}


def described(name, module, given):
    optimizer, scheduler = parts_of(name, given)
    kind = kind_of(name, optimizer)
    names = {id(each) for each in module.parameters()}
    groups = [group_of(name, kind, each, names) for each in optimizer.param_groups]
    places = [place for place, each in enumerate(groups) if each["params"]]
    if not places:
        refuse(name, "returns an optimizer without a parameter to train", "give it self.parameters()")
    schedule = None if scheduler is None else schedule_of(name, scheduler, optimizer, places)
    return {"groups": [groups[place] for place in places], "schedule": schedule}
