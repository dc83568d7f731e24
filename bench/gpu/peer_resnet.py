# SPDX-License-Identifier: Apache-2.0
"""Times a step of a ResNet on one batch that stays on the device, with torchvision's network, channels_last, autocast and fused SGD."""
import contextlib

import torch
import torchvision
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import peer

asked = peer.arguments(mode="eager", model="resnet50", stem="imagenet", precision="bf16", batch=256, size=224, classes=1000, window=10,
                       repeats=6, warm=20, traffic=0)
torch.manual_seed(1)
peer.allow_tf32()
torch.backends.cudnn.benchmark = True
net = getattr(torchvision.models, asked.model)(num_classes=asked.classes)
if asked.stem == "cifar":
    net.conv1 = torch.nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    net.maxpool = torch.nn.Identity()
net = net.to(asked.device, memory_format=torch.channels_last).train()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
images = torch.randn(asked.batch, 3, asked.size, asked.size, device=asked.device).to(memory_format=torch.channels_last)
labels = torch.randint(asked.classes, (asked.batch,), device=asked.device)
forward = peer.compiled(net, asked.mode, asked.device)


def step():
    optimizer.zero_grad()
    cast = torch.autocast(asked.device, torch.bfloat16) if asked.precision == "bf16" else contextlib.nullcontext()
    with cast:
        loss = torch.nn.functional.cross_entropy(forward(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


class Traffic(TorchDispatchMode):
    """Counts the bytes of the tensors that a step's operators read and write. A tensor counts once an operator. Views and allocations count
    nothing."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if not function.is_view and "empty" not in function.name():
            tensors = [each for each in tree_leaves((args, kwargs, out)) if isinstance(each, torch.Tensor)]
            self.bytes += sum(each.nbytes for each in tensors)
        return out


found = peer.measured(step, asked.device, asked.window, asked.repeats, asked.warm)
if asked.traffic:
    with Traffic() as traffic:
        step()
    found["traffic_bytes"] = traffic.bytes
peer.say(parameters=sum(each.numel() for each in net.parameters()), **found)
