# SPDX-License-Identifier: Apache-2.0
"""Trains on one thread and saves in one of several ways: peer_save.py WAY HIDDEN STEPS EVERY FOLDER

WAY is none, save (torch.save), synced (torch.save and fsync), thread or process (async_save of torch.distributed.checkpoint), or
lines (python/lockstep.py). Prints one JSON object with the seconds of steps 3 to the last but one, the seconds that calls to save
blocked, the CPU seconds, and the seconds to load.
"""
import json
import os
import pathlib
import resource
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import lockstep  # noqa: E402

WAY, HIDDEN, STEPS, EVERY, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), pathlib.Path(sys.argv[5])


def state_of(net, optimizer):
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict()}


class Saver:
    def __init__(self, net, optimizer):
        self.pending = None
        if WAY == "lines":
            self.run = lockstep.start(model=net, optimizer=optimizer, folder=str(FOLDER / "run"), keep=1)
        if WAY in ("thread", "process"):
            dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())

    def save(self, state, step):
        path = FOLDER / f"state-{step}"
        if WAY in ("save", "synced"):
            with open(path, "wb") as file:
                torch.save(state, file)
                if WAY == "synced":
                    file.flush()
                    os.fsync(file.fileno())
        elif WAY in ("thread", "process"):
            kind = dcp.state_dict_saver.AsyncCheckpointerType
            kind = kind.THREAD if WAY == "thread" else kind.PROCESS
            self.wait()
            self.pending = dcp.async_save(state, checkpoint_id=str(path), async_checkpointer_type=kind)
        elif WAY == "lines":
            self.run.save()

    def wait(self):
        if WAY == "lines":
            self.run.finish()
        if self.pending is not None:
            done = getattr(self.pending, "upload_completion", self.pending)
            done.result()
            self.pending = None


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(784, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(),
                              torch.nn.Linear(HIDDEN, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(64, 784), torch.randint(10, (64,))
    saver, blocked, began = Saver(net, optimizer), [], 0.0
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        if WAY == "lines":
            lockstep.should_stop()  # A loop of one's own calls should_stop() after each step.
        if step == 2:
            began = time.perf_counter()
        if step % EVERY == 0 and step < STEPS - 1 and WAY != "none":
            start = time.perf_counter()
            saver.save(state_of(net, optimizer), step)
            blocked.append(time.perf_counter() - start)
        if step == STEPS - 1:
            ended = time.perf_counter()
    saver.wait()
    used = resource.getrusage(resource.RUSAGE_SELF)
    load = None
    if WAY == "save":
        start = time.perf_counter()
        torch.load(FOLDER / f"state-{EVERY}", weights_only=True)
        load = time.perf_counter() - start
    print(json.dumps({"steps_s": ended - began, "blocked_s": blocked, "cpu_s": used.ru_utime + used.ru_stime, "load_s": load}))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # Leaves at once, because the process that async_save started waits for a message that will not come.
