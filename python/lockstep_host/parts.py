# SPDX-License-Identifier: Apache-2.0
"""One part of the data, such as "train": its fields, its size, its classes and its samples."""
import itertools
import json
import os
import struct
import sys

from lockstep_host import channel, loaders
from lockstep_host.errors import DATA, RECIPE, Refusal
from lockstep_host.samples import laid_sample


def is_iterable(data):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.utils.data.IterableDataset):
        return True
    return hasattr(data, "__iter__") and not (hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def in_child(work):
    """Runs `work` in a child process, so that nothing changes in this one, and returns the JSON value. Raises Refusal if `work` fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = channel.failure(error)
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text) if text else {"code": 4, "fact": "the process that read the first sample ended", "hint": "its last lines are above"}
    if isinstance(answer, dict):
        raise Refusal(answer["code"], answer["fact"], answer["hint"])
    return answer


class Part:
    def __init__(self, name, data, collate=None, init=None, samples=0):
        self.name, self.data, self.collate, self.init = name, data, collate, init
        self.is_stream = is_iterable(data)
        if self.is_stream:
            self.size, self.fields = self.size_of_epoch(samples), in_child(self.first_fields)
        else:
            self.require_map_style(samples)
            channel.seed(0, 0, 0)
            self.fields = [(kind, shape) for kind, shape, _ in self.read(0)]
            if collate is not None and self.size > 1:
                loaders.require_rows_by_themselves(collate, data, channel.seed)
        self.fields = [(kind, shape) for kind, shape in self.fields]
        self.classes, self.class_names = self.known_classes()

    def require_map_style(self, samples):
        if not hasattr(self.data, "__getitem__") or not hasattr(self.data, "__len__"):
            raise Refusal(RECIPE, f"{self.name} gives {type(self.data).__name__}, which has no length or no samples by number",
                          "want a map-style data set, with __len__ and __getitem__, or an iterable one, with __iter__")
        self.size = len(self.data)
        if self.size < 1:
            raise Refusal(DATA, f"{self.name} gives an empty data set", "want at least one sample")
        if samples:
            raise Refusal(RECIPE, f"data.samples is {samples}, and {self.name} gives a map-style data set of {self.size}",
                          "leave it out: it is for iterable data sets; torch.utils.data.Subset makes a smaller one")

    def size_of_epoch(self, samples):
        if samples:
            return samples
        try:
            size = len(self.data)
        except TypeError:
            raise Refusal(RECIPE, f"{self.name} gives {type(self.data).__name__}, an iterable without a length",
                          "say with data.samples how many samples make an epoch") from None
        if size < 1:
            raise Refusal(DATA, f"{self.name} gives an empty data set", "want at least one sample")
        return size

    def first_fields(self):
        channel.seed(0, 0, 0)
        for sample in itertools.islice(self.data, 1):
            return [(kind, shape) for kind, shape, _ in self.laid(sample)]
        raise Refusal(DATA, f"{self.name} gives no sample", "want at least one")

    def laid(self, sample):
        return laid_sample(sample if self.collate is None else loaders.row_of(self.collate([sample]), 0, 1))

    def read(self, number):
        return self.laid(self.data[number])

    def write(self, sample, memory, at):
        """Copies a sample into memory at byte `at`. Raises Refusal if its types and shapes differ from those of the first sample."""
        self.require_same(sample)
        for _, _, data in sample:
            size = len(data)
            memory[at:at + size] = data
            at += size

    def known_classes(self):
        if self.fields[1] != ("I64", []):
            return 0, []
        data = self.data
        while data is not None:
            classes = getattr(data, "classes", None)
            if isinstance(classes, (list, tuple)):
                return len(classes), [str(each) for each in classes]
            if getattr(data, "num_classes", None):
                return int(data.num_classes), []
            data = getattr(data, "dataset", None)  # torch.utils.data.Subset holds the whole data set.
        raise Refusal(RECIPE, f"{self.name} gives samples with a class, and the data set does not say how many classes there are",
                      "give it an attribute `classes`, the list of their names, or `num_classes`; a number to predict is a float")

    def described(self):
        fields = [{"name": name, "dtype": kind, "shape": shape} for name, (kind, shape) in zip(("input", "target"), self.fields)]
        return {"size": self.size, "is_stream": self.is_stream, "fields": fields, "classes": self.classes, "class_names": self.class_names}

    def require_same(self, sample):
        for name, (kind, shape, _), wanted in zip(("input", "target"), sample, self.fields):
            if (kind, shape) != wanted:
                raise Refusal(DATA, f"its {name} is {kind} {shape}, that of sample 0 is {wanted[0]} {wanted[1]}",
                              "give all samples one shape and type: resize, crop or pad in __getitem__")
        if self.classes:
            label = struct.unpack("=q", sample[1][2])[0] if isinstance(sample[1][2], bytes) else int(sample[1][2].view("int64")[0])
            if not 0 <= label < self.classes:
                raise Refusal(DATA, f"its class is {label}, want 0 to {self.classes - 1}", "count classes from 0, and name all of them in `classes`")
