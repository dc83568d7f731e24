# SPDX-License-Identifier: Apache-2.0
"""Times a step of the small network on MNIST in PyTorch: --mode eager, compile or graphs."""
import torch

import peer

asked = peer.arguments(mode="eager", data="", batch=64, window=500, repeats=7, warm=200)
torch.manual_seed(1)
peer.allow_tf32()
images, labels = peer.mnist(asked.data, asked.device)
net = peer.Cnn().to(asked.device)
optimizer = torch.optim.Adam(net.parameters(), lr=0.001, fused=True)
places = peer.batches(len(images), asked.batch, asked.device)


def loss_of(x, y):
    return torch.nn.functional.cross_entropy(net(x.float() / 255), y)


loss_of = peer.compiled(loss_of, asked.mode, asked.device)


def step():
    at = next(places)
    optimizer.zero_grad()
    loss = loss_of(images[at], labels[at])
    loss.backward()
    optimizer.step()
    return loss.detach()


peer.say(**peer.measured(step, asked.device, asked.window, asked.repeats, asked.warm))
