# SPDX-License-Identifier: Apache-2.0
"""Modules of Python for the tests: what a class in a real repository has, on images of 1 x 8 x 8."""
import random

import numpy
import torch


class Plain(torch.nn.Module):
    def __init__(self, width=32, num_classes=10):
        super().__init__()
        self.into = torch.nn.Linear(64, width)
        self.head = torch.nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(torch.relu(self.into(x.flatten(1))))


class Doubled(torch.autograd.Function):
    """The square, with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Rich(torch.nn.Module):
    """Tied weights, a module in two places, batch normalisation, dropout, buffers of both kinds, an autograd function, a
    branch on the data, a hook, a frozen parameter and several outputs."""

    def __init__(self, num_classes, width=24, drop=0.2):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.into = torch.nn.Linear(4 * 8 * 8, width)
        self.mix = torch.nn.Linear(width, width, bias=False)
        self.again = torch.nn.Linear(width, width, bias=False)
        self.again.weight = self.mix.weight
        self.shared = torch.nn.LayerNorm(width)
        self.shared_too = self.shared
        self.drop = torch.nn.Dropout(drop)
        self.head = torch.nn.Linear(width, num_classes)
        self.scale = torch.nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("grid", torch.linspace(0, 1, 8).view(1, 1, 1, 8), persistent=False)
        self.mix.register_forward_hook(lambda module, given, result: result + self.scale)

    def forward(self, x):
        if self.training:
            self.seen += len(x)
        x = torch.relu(self.norm(self.conv(x + 0.1 * self.grid.to(x.dtype)))).flatten(1)
        x = self.shared(torch.tanh(self.mix(torch.tanh(self.into(x)))))
        if x[0, 0] > 0:
            x = x + 0.01 * Doubled.apply(x)
        x = self.shared_too(torch.tanh(self.again(x)))
        return {"features": x, "logits": self.head(self.drop(x))}


class Drawing(Plain):
    """Draws by Python's and NumPy's generators in its forward."""

    def forward(self, x):
        noise = random.random() + numpy.random.rand() if self.training else 1.0
        return super().forward(x * (1 + 0.1 * noise))


class Failing(Plain):
    def __init__(self, at=3, where="forward", **kwargs):
        super().__init__(**kwargs)
        self.at, self.where, self.calls = at, where, 0

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.calls += 1
            if self.calls == self.at and self.where == "forward":
                raise RuntimeError(f"call {self.calls} is one too many")
        return super().forward(FailsBackward.apply(x + self.into.bias.sum() * 0) if self.calls == self.at else x)


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no way back")


class Empty(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :10]


class Hooked(Plain):
    """Hooks of each kind that a module, a parameter and a tensor have, which change what is trained."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.into.register_forward_pre_hook(lambda module, given: (given[0] * 1.25,))
        self.into.register_forward_hook(lambda module, given, result: result + 0.01)
        self.head.register_full_backward_hook(lambda module, to_input, to_output: (to_input[0] * 0.5,))
        self.into.weight.register_hook(lambda gradient: gradient * 0.75)

    def forward(self, x):
        x = torch.relu(self.into(x.flatten(1)))
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient * 1.5)
        return self.head(x)


def compiled(width=32, backend="eager"):
    return torch.compile(Plain(width), backend=backend)


def a_list():
    return [Plain()]


def weighted_loss(output, target):
    """A loss with a weight for each class; the mean is over samples."""
    weight = torch.linspace(0.5, 1.5, output.shape[1], dtype=output.dtype)
    return (torch.nn.functional.cross_entropy(output, target, reduction="none") * weight[target]).mean()


def hits(output, target):
    """One for each sample."""
    return output.argmax(1) == target


def margin(output, target):
    """A number for the batch: the mean distance of the two best scores."""
    best = output.topk(2, 1).values
    return float((best[:, 0] - best[:, 1]).mean())


class Margin(torch.nn.Module):
    def forward(self, output, target):
        return margin(output, target)


def odd_metric(output, target):
    return output


def loss_of_each(output, target):
    return torch.nn.functional.cross_entropy(output, target, reduction="none")
