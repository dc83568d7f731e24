# SPDX-License-Identifier: Apache-2.0
"""Classes with training_step, validation_step and configure_optimizers, on images of 1 x 8 x 8."""
import torch
from torch.optim import lr_scheduler as schedulers


def cross_entropy(output, target):
    return torch.nn.functional.cross_entropy(output, target)


class Layers:
    def make_layers(self, num_classes, width):
        self.into = torch.nn.Linear(64, width)
        self.head = torch.nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(torch.tanh(self.into(x.flatten(1))))

    def optimizer_of(self, name):
        groups = [{"params": list(self.into.parameters()), "weight_decay": 0.05}, {"params": list(self.head.parameters()), "lr": 0.02}]
        return {"sgd": lambda: torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True),
                "adam": lambda: torch.optim.Adam(groups, lr=0.01, betas=(0.8, 0.99), amsgrad=True),
                "adamw": lambda: torch.optim.AdamW(groups, lr=0.01, eps=1e-7)}[name]()


def schedule_of(name, optimizer, steps):
    """What configure_optimizers() has as "lr_scheduler"."""
    warmup = lambda t: min(1.0, (t + 1) / 10)  # noqa: E731
    made = {"step": lambda: schedulers.StepLR(optimizer, 2, 0.5),
            "cosine": lambda: schedulers.CosineAnnealingLR(optimizer, 3),  # It rises again within the run.
            "onecycle": lambda: {"scheduler": schedulers.OneCycleLR(optimizer, 0.1, total_steps=steps), "interval": "step"},
            "lambda": lambda: {"scheduler": schedulers.LambdaLR(optimizer, [warmup, lambda t: 1.0]), "interval": "step", "frequency": 2},
            "sequential": lambda: {"scheduler": schedulers.SequentialLR(
                optimizer, [schedulers.LinearLR(optimizer, 0.1, total_iters=8), schedulers.ExponentialLR(optimizer, 0.97)], [8]), "interval": "step"},
            "plateau": lambda: {"scheduler": schedulers.ReduceLROnPlateau(optimizer, factor=0.3, patience=0, threshold=0.2), "monitor": "val_loss"}}
    return made[name]()


class Plain(Layers, torch.nn.Module):
    """The same methods without Lightning. The loss is in `net`-less steps only: there is no forward of the class's own."""

    def __init__(self, num_classes=10, width=24, optimizer="adamw", schedule=None):
        super().__init__()
        self.make_layers(num_classes, width)
        self.chosen, self.schedule = optimizer, schedule

    def training_step(self, batch):
        x, y = batch
        return cross_entropy(self(x), y)

    def configure_optimizers(self):
        optimizer = self.optimizer_of(self.chosen)
        return [optimizer], [] if self.schedule is None else [schedule_of(self.schedule, optimizer, 50)]


class WithoutForward(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, num_classes))

    def training_step(self, batch, batch_idx):
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        return cross_entropy(self.net(batch[0]), batch[1])


class Odd(Plain):
    """Asks for what the trainer does not do, in one way."""

    def __init__(self, way, num_classes=10):
        super().__init__(num_classes)
        self.way = way
        if way == "manual":
            self.automatic_optimization = False

    def training_step(self, batch):
        loss = super().training_step(batch)
        if self.way == "none":
            return None
        if self.way == "each":
            return loss.expand(3)
        if self.way == "sum":
            self.log("acc", loss, reduce_fx="sum")
        if self.way == "vector":
            self.log("acc", torch.zeros(3))
        return loss

    def configure_optimizers(self):
        sgd = self.optimizer_of("sgd")
        stranger = torch.nn.Parameter(torch.zeros(3))
        every = schedulers.StepLR(sgd, 1)
        return {"two": lambda: [sgd, self.optimizer_of("adam")],
                "lbfgs": lambda: torch.optim.LBFGS(self.parameters()),
                "nothing": lambda: None,
                "maximize": lambda: torch.optim.SGD(self.parameters(), lr=0.1, maximize=True),
                "stranger": lambda: torch.optim.SGD([stranger], lr=0.1),
                "schedulers": lambda: ([sgd], [every, schedulers.StepLR(sgd, 2)]),
                "interval": lambda: {"optimizer": sgd, "lr_scheduler": {"scheduler": every, "interval": "batch"}},
                "key": lambda: {"optimizer": sgd, "lr_scheduler": {"scheduler": every, "intervall": "step"}},
                "no metric": lambda: ([sgd], [schedulers.ReduceLROnPlateau(sgd)]),
                "absolute": lambda: {"optimizer": sgd, "lr_scheduler": {"scheduler": schedulers.ReduceLROnPlateau(sgd, threshold_mode="abs"),
                                                                        "monitor": "val_loss"}},
                "other": lambda: ([sgd], [schedulers.StepLR(self.optimizer_of("sgd"), 1)])}.get(self.way, lambda: sgd)()


class OfAnotherKind(Plain):
    """Its methods only have Lightning's names: a loop of its own calls them, as in well-known repositories."""

    def training_step(self, images, labels):
        return cross_entropy(self(images), labels)


class WithSettings(Layers, torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.make_layers(num_classes, 24)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        raise NotImplementedError
