# SPDX-License-Identifier: Apache-2.0
"""The messages between the trainer and a process of the data set, and the seed of a sample's random choices."""
import json
import random
import struct
import sys

from lockstep_host.errors import DATA, Refusal, told

REQUEST = struct.Struct("=Qqq")  # seed, epoch, id
LENGTH = struct.Struct("=I")


def seed(of_run, epoch, number):
    """Seeds Python's, NumPy's and PyTorch's generators for one sample, and returns the seed.

    So a sample's random choices follow from run, epoch and sample id, whichever worker reads the sample.
    """
    mixed = (of_run * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9 + number * 0x94D049BB133111EB) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93) & (2**64 - 1)
    mixed ^= mixed >> 32
    random.seed(mixed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(mixed & 0xFFFFFFFF)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(mixed & (2**63 - 1))  # torch.manual_seed() takes ten times as long.
    return mixed & (2**63 - 1)


def failure(error):
    if isinstance(error, Refusal):
        return {"code": error.code, "fact": error.fact, "hint": error.hint}
    return {"code": DATA, "fact": told(error), "hint": "the last lines of the traceback say where"}


def send(connection, answer):
    text = json.dumps(answer).encode()
    connection.sendall(LENGTH.pack(len(text)) + text)


def received(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return None
        data += more
    return data
