# SPDX-License-Identifier: Apache-2.0
"""Serves a Python data set's samples: PYTHON lockstep_host/data.py, with a socket as file 3, as lockstep-train starts it.

This process imports the user's code and opens the data set once. For each of the trainer's threads that read, it forks a worker, which
shares that memory. A worker answers one request after the other: it reads a sample, and lays it into memory that it shares with the
trainer. It ends when the trainer closes its socket. lockstep/data/source/python_source.cc is the other side.
"""
import ctypes
import json
import mmap
import os
import random
import signal
import socket
import struct
import sys
import warnings

if __name__ == "__main__":  # As `python -m` has it: the user's modules come from the folder where they are.
    sys.path[0] = os.getcwd()
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lockstep_host import names
from lockstep_host.errors import DATA, RECIPE, Refusal, told

PR_SET_PDEATHSIG = 1
REQUEST = struct.Struct("=Qqq")  # seed, epoch, id
LENGTH = struct.Struct("=I")
INPUTS, TARGETS = ("input", "image", "x", "pixel_values", "input_ids"), ("target", "label", "labels", "y")
TYPES = {"uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
         "float32": "F32", "float64": "F32", "bool": "BOOL"}  # Python's own numbers have 64 bits, and networks have 32.


def parts_of(sample):
    """Input and target of a sample; the target is 0 if it has none."""
    if isinstance(sample, dict):
        def value(known):
            return next((sample[name] for name in known if name in sample), None)
        first, second = value(INPUTS), value(TARGETS)
        if first is None:
            raise Refusal(DATA, f"a sample is a dict of {', '.join(map(str, sample))}", "name its input 'input', and its label 'target'")
        return first, 0 if second is None else second
    if isinstance(sample, (tuple, list)):
        if len(sample) != 2:
            raise Refusal(DATA, f"a sample is a {type(sample).__name__} of {len(sample)} values, want (input, target)",
                          "return two, or a dict with 'input' and 'target'")
        return sample
    return sample, 0


def laid_out(value, is_target):
    """A value as (type, shape, bytes-like)."""
    kind = type(value)
    if kind is bool or kind is int:
        return ("I64", [], struct.pack("=q", value)) if is_target else ("F32", [1], struct.pack("=f", value))
    if kind is float:
        return "F32", [1], struct.pack("=f", value)
    if hasattr(value, "getbands"):  # A PIL image: its bands one after the other, [channels, height, width].
        if value.mode not in ("L", "RGB"):
            value = value.convert("RGB")
        bands = value.split()
        return "U8", [len(bands), value.height, value.width], b"".join(each.tobytes() for each in bands)
    name = str(getattr(value, "dtype", kind.__name__)).rpartition(".")[2]
    if name not in TYPES:
        raise Refusal(DATA, f"a sample's {'target' if is_target else 'input'} is {name}, want a tensor, an array, a PIL image or a number",
                      "convert it in the data set's __getitem__")
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if name == "float64" else value).contiguous()
        shape = list(value.shape)
        import torch
        data = value.reshape(-1).view(torch.uint8).numpy() if value.numel() else b""
    else:
        import numpy
        value = numpy.asarray(value, dtype="float32" if name == "float64" else None, order="C")
        shape, data = list(value.shape), value.reshape(-1).view("uint8")
    if is_target and not shape and TYPES[name] == "F32":
        shape = [1]
    if is_target and TYPES[name] in ("U8", "I8", "I16", "I32", "BOOL") and not shape:
        return "I64", [], struct.pack("=q", int(value))
    return TYPES[name], shape, data


class Part:
    """One part of the data, such as "train"."""

    def __init__(self, name, data):
        self.name, self.data = name, data
        if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
            raise Refusal(RECIPE, f"{name} gives {type(data).__name__}, which has no length or no samples by number",
                          "want a map-style data set, with __len__ and __getitem__: the order of samples is the trainer's")
        self.size = len(data)
        if self.size < 1:
            raise Refusal(DATA, f"{name} gives an empty data set", "want at least one sample")
        seed(0, 0, 0)
        self.fields = [(kind, shape) for kind, shape, _ in self.read(0)]
        self.classes, self.class_names = self.known_classes()

    def read(self, number):
        sample = self.data[number]
        return [laid_out(value, place == 1) for place, value in enumerate(parts_of(sample))]

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
            data = getattr(data, "dataset", None)  # Of torch.utils.data.Subset.
        raise Refusal(RECIPE, f"{self.name} gives samples with a class, and the data set does not say how many classes there are",
                      "give it an attribute `classes`, the list of their names, or `num_classes`; a number to predict is a float")

    def described(self):
        fields = [{"name": name, "dtype": kind, "shape": shape} for name, (kind, shape) in zip(("input", "target"), self.fields)]
        return {"size": self.size, "fields": fields, "classes": self.classes, "class_names": self.class_names}

    def require_same(self, sample):
        for name, (kind, shape, _), wanted in zip(("input", "target"), sample, self.fields):
            if (kind, shape) != wanted:
                raise Refusal(DATA, f"its {name} is {kind} {shape}, that of sample 0 is {wanted[0]} {wanted[1]}",
                              "give all samples one shape and type: resize, crop or pad in __getitem__")
        if self.classes:
            label = struct.unpack("=q", sample[1][2])[0] if isinstance(sample[1][2], bytes) else int(sample[1][2].view("int64")[0])
            if not 0 <= label < self.classes:
                raise Refusal(DATA, f"its class is {label}, want 0 to {self.classes - 1}", "count classes from 0, and name all of them in `classes`")


def seed(of_run, epoch, number):
    """A sample's random choices follow from run, epoch and sample, whoever reads it."""
    mixed = (of_run * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9 + number * 0x94D049BB133111EB) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93) & (2**64 - 1)
    mixed ^= mixed >> 32
    random.seed(mixed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(mixed & 0xFFFFFFFF)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(mixed & (2**63 - 1))  # torch.manual_seed() takes ten times as long.


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


def work(part, connection, memory):
    """A worker's life."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    while True:
        request = received(connection, REQUEST.size)
        if request is None:
            return
        try:
            of_run, epoch, number = REQUEST.unpack(request)
            seed(of_run, epoch, number)
            sample = part.read(number)
            part.require_same(sample)
            at = 0
            for _, _, data in sample:
                size = len(data)
                memory[at:at + size] = data
                at += size
            connection.sendall(LENGTH.pack(0))
        except Exception as error:  # The user's code may raise anything.
            send(connection, failure(error))


class Server:
    def __init__(self, control):
        self.control, self.parts = control, {}

    def open(self, asked):
        """The part of the data that the user's function gives; None if it has no such part."""
        split, name = asked["split"], asked["function"]
        make = names.found(asked["source"], name)
        signature = names.signature_of(make)
        taken, arguments = names.named_parameters_of(signature), dict(asked["arguments"])
        if "split" in taken and "split" not in arguments:
            arguments["split"] = split
        elif "train" in taken and "train" not in arguments:
            if split == "test":
                return None
            arguments["train"] = split == "train"
        elif split != "train":
            return None
        seed(asked["seed"], 0, -1)
        data = names.called(name, make, signature, arguments, "data.args")
        return None if data is None else Part(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})", data)

    def answer(self, asked):
        if asked["split"] not in self.parts:
            self.parts[asked["split"]] = self.open(asked)
        part = self.parts[asked["split"]]
        return {"is_there": part is not None, **(part.described() if part else {})}

    def fork(self, split, connection, memory_file):
        with socket.socket(fileno=connection) as own:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self.control.close()
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # One that hangs in the user's code ends with the server.
                with mmap.mmap(memory_file, 0) as memory:
                    work(self.parts[split], own, memory)
                os._exit(0)
        os.close(memory_file)

    def run(self):
        while True:
            head, files, _, _ = socket.recv_fds(self.control, LENGTH.size, 2)
            if not head:
                return
            head += b"" if len(head) == LENGTH.size else received(self.control, LENGTH.size - len(head))
            asked = json.loads(received(self.control, LENGTH.unpack(head)[0]))
            if files:
                self.fork(asked["split"], *files)
                continue
            try:
                send(self.control, self.answer(asked))
            except Exception as error:
                send(self.control, failure(error))


def main():
    # The trainer decides when a run ends. Slurm and a terminal send their signals to all processes.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout = sys.stderr
    # Python 3.12 warns of a fork beside threads. Workers take no lock of theirs: they compute on one thread.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    try:
        Server(socket.socket(fileno=3)).run()
    except BrokenPipeError:
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
