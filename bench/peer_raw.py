# SPDX-License-Identifier: Apache-2.0
"""Trains the class of peer_net.py in a raw PyTorch loop: python peer_raw.py STEPS FOLDER [fused] prints the microseconds of a step."""
import sys
import time

import torch

from peer_net import Net, samples


def main():
    steps = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Net(32, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, fused="fused" in sys.argv[3:] or None)
    x, y = samples(sys.argv[2])
    for step in range(steps):
        if step == 1:
            started = time.perf_counter()
        rows = torch.arange(step * 32, (step + 1) * 32) % 1000
        loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print((time.perf_counter() - started) / (steps - 1) * 1e6)


if __name__ == "__main__":
    main()
