# SPDX-License-Identifier: Apache-2.0
"""A loop in Python that survives, on the device: MNIST's small network with dropout and BatchNorm, through lockstep.py. Prints a digest of
the weights and the times of the windows between two logged losses. --kill-at N ends it by SIGKILL before the update N."""
import hashlib
import os
import signal
import sys
import time

import torch

import peer

sys.path.insert(0, str(peer.ROOT / "python"))
import lockstep  # noqa: E402

asked = peer.arguments(data="", folder="", epochs=1, kill_at=0, every_steps=20, window=50, deterministic=0)
if asked.deterministic:
    peer.be_deterministic()
torch.manual_seed(1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("nccl" if asked.device == "cuda" else "gloo")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) if asked.device == "cuda" else None
images, labels = peer.mnist(asked.data, "cpu")
net = torch.nn.Sequential(peer.Cnn(), torch.nn.BatchNorm1d(10), torch.nn.Dropout(0.1)).to(asked.device)
model = torch.nn.parallel.DistributedDataParallel(net) if torch.distributed.is_initialized() else net
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
data = torch.utils.data.TensorDataset(images, labels)
loader = torch.utils.data.DataLoader(data, batch_sampler=lockstep.Sampler(data, global_batch=64), pin_memory=asked.device == "cuda")
run = lockstep.start(model=model, optimizer=optimizer, folder=asked.folder, every_steps=asked.every_steps, log_every=asked.window)
first, marks, losses = run.step, [], []
for _ in run.epochs(asked.epochs):
    for x, y in run.steps(loader):
        if asked.kill_at and run.step + 1 == asked.kill_at:
            run.save()
            os.kill(os.getpid(), signal.SIGKILL)
        x, y = x.to(asked.device, non_blocking=True), y.to(asked.device, non_blocking=True)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.float() / 255), y) * run.weight
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
        if (run.step + 1) % asked.window == 0:
            losses.append(loss.item())
            marks.append(time.perf_counter())
digest = hashlib.sha256(b"".join(each.cpu().numpy().tobytes() for each in net.state_dict().values())).hexdigest()
windows = [(after - before) / asked.window for before, after in zip(marks, marks[1:])]
peer.say(digest=digest, first=first, steps=run.step, losses=losses, windows_s=windows)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
