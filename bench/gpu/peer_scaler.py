# SPDX-License-Identifier: Apache-2.0
"""Prints the loss scale after each step of the digits recipe in fp16, with torch.amp.GradScaler. Shares functions with peer_losses.py."""
import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch  # noqa: E402

import peer  # noqa: E402
from epoch_order import EpochOrder  # noqa: E402

asked = peer.arguments(weights="", steps=2100, batch=2, hidden=128)
torch.manual_seed(1)
peer.be_deterministic()
folder = peer.ROOT / "datasets/digits"
images, labels = (peer.idx(folder / f"train-{name}.gz").to(asked.device) for name in ("images-idx3-ubyte", "labels-idx1-ubyte"))
labels = labels.long()
net = peer.Mlp(64, asked.hidden, 10)
torch.save(net.state_dict(), asked.weights)
net = net.to(asked.device)
optimizer = torch.optim.SGD(net.parameters(), lr=2.0, fused=True)
scaler = torch.amp.GradScaler(asked.device)
scales = []
epoch = 0
while len(scales) < asked.steps:
    order = EpochOrder(len(images), 1, epoch)
    ids = torch.tensor([order[place] for place in range(len(images))], device=asked.device)
    for at in ids.split(asked.batch)[:asked.steps - len(scales)]:
        with torch.autocast(asked.device, torch.float16):
            loss = torch.nn.functional.cross_entropy(net(images[at].float() / 255), labels[at])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    epoch += 1
peer.say(scales=scales, torch=torch.__version__)
