#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files beside it with the real torch.save, pickle and safetensors, and expected.json with what they hold.

    python tests/golden/weights/make.py

Made with: torch 2.11.0, numpy 2.4.6, safetensors 0.8.0.
"""
import collections
import json
import os
import pathlib
import pickle
import struct

import numpy
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
         torch.complex64: "C64", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
         torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}
expected = {}


def numbers(*shape, dtype=torch.float32):
    count = int(numpy.prod(shape))
    return (torch.arange(count, dtype=torch.float32) * 0.25 - 1).reshape(shape).to(dtype)


def note(name, tensors):
    expected[name] = {key: {"dtype": NAMES[t.dtype], "shape": list(t.shape),
                            "hex": t.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes().hex()}
                      for key, t in tensors.items()}


def save(name, value, tensors=None, **options):
    torch.save(value, HERE / name, **options)
    note(name, value if tensors is None else tensors)


class Evil:
    """What a pickle can do to whoever unpickles it."""

    def __reduce__(self):
        return os.system, ("touch lockstep-ran-a-pickle",)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        torch.nn.init.constant_(self.embed.weight, 0.5)


def python2_batch(pixels, labels):
    """A batch as torchvision leaves CIFAR on disk: Python 2's cPickle wrote it, protocol 2, with its own str."""
    def text(value):
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value
    array = (b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85" + text(b"b") + b"\x87R"
             + b"(K\x01" + b"".join(b"K" + bytes([n]) if n < 256 else b"M" + struct.pack("<H", n) for n in pixels.shape)
             + b"\x86cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|")
             + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + text(pixels.tobytes()) + b"tb")
    return (b"\x80\x02}q\x01(" + text(b"batch_label") + text(b"testing batch 1 of 1") + text(b"labels") + b"]q\x02("
            + b"".join(b"K" + bytes([n]) for n in labels) + b"e" + text(b"data") + array + text(b"filenames") + b"]("
            + b"".join(text(b"image_%d.png" % n) for n in labels) + b"eu.")


def pickles():
    pixels = numpy.arange(2 * 300, dtype=numpy.uint32).astype(numpy.uint8).reshape(2, 300)
    (HERE / "cifar-python2.pickle").write_bytes(python2_batch(pixels, [6, 9]))
    assert (pickle.loads((HERE / "cifar-python2.pickle").read_bytes(), encoding="bytes")[b"data"] == pixels).all()
    for protocol in (2, 4, 5):
        batch = {b"data": pixels, b"labels": [6, 9], "note": "h\u00e9", "big": 1 << 70, "small": -3, "real": 0.5}
        (HERE / f"arrays-{protocol}.pickle").write_bytes(pickle.dumps(batch, protocol))
    for protocol in range(6):
        (HERE / f"evil-{protocol}.pickle").write_bytes(pickle.dumps(Evil(), protocol))


def torch_files():
    save("dtypes.pt", collections.OrderedDict((NAMES[d].lower(), numbers(2, 3, dtype=d)) for d in NAMES))
    base = numbers(4, 6)
    save("views.pt", {"base": base, "transposed": base.t(), "slice": base[1:3, 2:5], "row": base[2],
                      "step": base[:, ::2], "expanded": base[0, :1].expand(3, 1), "number": base[3, 5],
                      "empty": torch.zeros(0, 7), "image": numbers(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)})
    tied = Tied()
    save("tied.pt", tied.state_dict())
    save("legacy.pt", tied.state_dict(), _use_new_zipfile_serialization=False)
    save("parameters.pt", {"weight": torch.nn.Parameter(numbers(2)), "buffer": torch.nn.Buffer(numbers(3))})
    save("nested.pt", {"encoder": {"a": numbers(2), 0: {"b": numbers(1)}}, "epoch": 3, "text": "x"},
         {"encoder.a": numbers(2), "encoder.0.b": numbers(1)})
    state = {"model." + key: value for key, value in tied.state_dict().items()}
    save("lightning.ckpt", {
        "epoch": 1, "global_step": 20, "pytorch-lightning_version": "2.6.0", "state_dict": collections.OrderedDict(state),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 2, "completed": 1}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.25), "dirpath": "x"}},
        "optimizer_states": [torch.optim.Adam(tied.parameters(), lr=0.1).state_dict()], "lr_schedulers": [],
        "hparams_name": "kwargs", "hyper_parameters": {"lr": 0.1, "where": pathlib.PurePosixPath("x").name}}, state)
    torch.save({"weight": numbers(2), "evil": Evil()}, HERE / "evil.pt")
    torch.save({"weight": torch.quantize_per_tensor(numbers(2), 0.1, 0, torch.qint8)}, HERE / "quantised.pt")
    torch.save([numbers(2)], HERE / "list.pt")
    torch.jit.script(torch.nn.ReLU()).save(HERE / "script.pt")


def folders():
    tensors = {"a.weight": numbers(2, 2), "b.weight": numbers(3, dtype=torch.bfloat16)}
    for name, write in (("shards", safetensors.torch.save_file), ("bin", torch.save)):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        stem, suffix = ("model", "safetensors") if name == "shards" else ("pytorch_model", "bin")
        files = {f"{stem}-0000{i + 1}-of-00002.{suffix}": {key: tensors[key]} for i, key in enumerate(tensors)}
        for file, part in files.items():
            write(part, folder / file)
        index = {"metadata": {"total_size": 22}, "weight_map": {key: f for f, part in files.items() for key in part}}
        (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index) + "\n")
        note(name, tensors)
    (HERE / "single").mkdir(exist_ok=True)
    torch.save(tensors, HERE / "single/pytorch_model.bin")
    note("single", tensors)


def main():
    pickles()
    torch_files()
    folders()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
