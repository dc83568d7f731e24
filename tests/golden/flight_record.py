#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes flight_record.pickle, what PyTorch's flight recorder has after one all-reduce over Gloo: flight_record.py FILE"""
import os
import sys

os.environ |= {"TORCH_FR_BUFFER_SIZE": "100", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29655", "RANK": "0", "WORLD_SIZE": "1"}

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


def step():
    dist.all_reduce(torch.ones(3, 4))


dist.init_process_group("gloo")
step()
with open(sys.argv[1], "wb") as file:
    file.write(torch._C._distributed_c10d._dump_fr_trace())
