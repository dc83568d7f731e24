# SPDX-License-Identifier: Apache-2.0
"""Data sets as users have them, for data_test.py. `digits` gives what kind = "idx" reads."""
import os
import pathlib
import random
import signal
import struct
import time

import numpy
import torch

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "datasets/digits"


def array(name):
    import gzip
    file = DIGITS / name
    data = gzip.decompress(file.with_name(name + ".gz").read_bytes()) if not file.exists() else file.read_bytes()
    dimensions = data[3]
    shape = struct.unpack(">" + "I" * dimensions, data[4:4 + 4 * dimensions])
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


class Digits:
    classes = [str(each) for each in range(10)]

    def __init__(self, part, form="array"):
        self.images, self.labels, self.form = array(f"{part}-images-idx3-ubyte"), array(f"{part}-labels-idx1-ubyte"), form

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, number):
        image, label = self.images[number][None], int(self.labels[number])
        if self.form == "tensor":
            return torch.from_numpy(image.copy()), torch.tensor(label)
        if self.form == "dict":
            return {"label": self.labels[number], "image": image}
        if self.form == "pil":
            from PIL import Image
            return Image.fromarray(self.images[number]), label
        return image, label


def digits(split, form="array"):
    return Digits({"train": "train", "validation": "t10k"}[split], form) if split != "test" else None


class Noisy:
    """Draws from each generator that people use."""

    num_classes = 2

    def __len__(self):
        return 40

    def __getitem__(self, number):
        x = torch.tensor([random.random(), numpy.random.rand(), torch.rand(()).item(), number / 40]) - 0.5
        return x, int(number % 2)


class Numbers:
    """A number to predict, of 64 bits as NumPy has it."""

    def __len__(self):
        return 30

    def __getitem__(self, number):
        return numpy.array([number / 30, 1.0]), number / 15


class Faulty(Noisy):
    """Fails at one sample in one way."""

    def __init__(self, way):
        self.way = way

    def __getitem__(self, number):
        x, label = super().__getitem__(number)
        if number != 17:
            return x, label
        if self.way == "raise":
            return self.labels[number]
        if self.way == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.way == "hang":
            time.sleep(3600)
        if self.way == "shape":
            x = torch.zeros(5)
        if self.way == "class":
            label = 2
        return (x, label, 3) if self.way == "three" else (x, label)


class WithoutClasses(Noisy):
    num_classes = None


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.zeros(4), 0


def empty():
    return []
