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


class WithoutOrder:
    num_classes = 2

    def __getitem__(self, number):
        return torch.zeros(4), 0


class Shared(torch.utils.data.IterableDataset):
    """Shares the digits out by get_worker_info(), as PyTorch's documentation has it."""

    classes = Digits.classes

    def __init__(self, split, size=None, way="share"):
        self.data, self.size, self.way = digits(split) if split != "test" else [], size, way

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, every = (info.id, info.num_workers) if info is not None and self.way != "twice" else (0, 1)
        if self.way == "raise" and info is not None:
            raise LookupError("the shard is not there")
        if self.way == "nothing" and info is not None:
            return
        for number in range(first, len(self.data), every):
            if self.way == "die" and number > 100:
                os.kill(os.getpid(), signal.SIGKILL)
            image, label = self.data[number]
            yield (image[:, :4] if self.way == "shape" and number > 100 else image), label

    def __len__(self):
        return len(self.data)


class Unmeasured(Shared):
    __len__ = None


class ByRank(torch.utils.data.IterableDataset):
    """Shares the digits out among ranks by its arguments, and among a rank's workers by get_worker_info()."""

    classes = Digits.classes

    def __init__(self, split, rank, world):
        self.data, self.rank, self.world = digits(split), rank, world

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        mine = range(self.rank, len(self.data), self.world)
        for number in mine if info is None else mine[info.id::info.num_workers]:
            yield self.data[number]

    def __len__(self):
        return len(self.data)


def told(split, folder):
    """A stream that notes in a file of its worker's own which samples it gave."""
    class Told(Shared):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            for place, sample in enumerate(super().__iter__()):
                if info is not None:
                    with open(os.path.join(folder, f"{split}-{info.id}-of-{info.num_workers}-{os.getpid()}"), "a") as file:
                        file.write(f"{info.id + place * info.num_workers}\n")
                yield sample
    return Told(split)


def generated(split):
    """A generator may be iterated over once."""
    def samples():
        for number in range(200):
            yield numpy.array([number / 200, 1.0], dtype="float32"), float(number) / 100
    return samples() if split == "train" else None


def rows(batch):
    """A collate function: a batch of dicts, images as floats."""
    images, labels = zip(*batch)
    return {"labels": torch.tensor(labels), "pixel_values": torch.from_numpy(numpy.stack(images)).float() / 255}


def noisy_rows(batch):
    """The draws of a row depend on its place in the batch, its shape does not."""
    made = rows(batch)
    return made | {"pixel_values": made["pixel_values"] + 0.01 * torch.rand(len(batch), 1, 8, 8)}


def padded(batch):
    longest = max(label for _, label in batch) + 1
    return torch.zeros(len(batch), longest), torch.tensor([label for _, label in batch])


def mean_of_batch(batch):
    made = rows(batch)
    return made["pixel_values"] - made["pixel_values"].mean(), made["labels"]


def number_of(batch):
    return len(batch), 0


def loader(split, way="plain"):
    data = digits(split)
    if data is None:
        return None
    settings = {"plain": {}, "collate": {"collate_fn": rows, "batch_size": 7, "num_workers": 3, "shuffle": True, "drop_last": True},
                "weighted": {"sampler": torch.utils.data.WeightedRandomSampler([1.0] * len(data), len(data))},
                "batches": {"batch_size": None}}[way]
    return torch.utils.data.DataLoader(data, **settings)


class Unpicklable(Digits):
    """What a process that is spawned could not be given."""

    def __init__(self, split):
        super().__init__({"train": "train", "validation": "t10k"}[split])
        self.turn, self.file = (lambda image: image), open(__file__)

    def __getitem__(self, number):
        image, label = super().__getitem__(number)
        return self.turn(image), label


class Growing(Digits):
    """As long as a file says, at each start of the run."""

    def __init__(self, path):
        super().__init__("train")
        self.size = int(open(path).read().split()[int(os.environ.get("RANK", "0")) % 2])

    def __len__(self):
        return self.size


def empty():
    return []
