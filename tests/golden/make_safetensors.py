#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the safetensors files that safetensors_test.cc reads, with the format's own Python package; or reads ours.

    python tests/golden/make_safetensors.py             # writes tests/golden/safetensors/*.safetensors
    python tests/golden/make_safetensors.py FILE...     # prints what the package finds in each

Made with: pip install safetensors==0.5.3
"""
import pathlib
import sys

import safetensors

WIDTHS = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "int8": 1,
          "uint8": 1, "bool": 1}


def tensor(dtype, *shape):
    """A tensor whose byte i is i * 7 + 3, or its lowest bit for bool."""
    count = WIDTHS[dtype]
    for size in shape:
        count *= size
    mask = 1 if dtype == "bool" else 255
    return {"dtype": dtype, "shape": list(shape), "data": bytes((i * 7 + 3) & mask for i in range(count))}


FILES = {
    "mixed": ({
        "layer1.0.conv1.weight": tensor("float32", 2, 3, 3, 3),
        "layer1.0.bn1.num_batches_tracked": tensor("int64"),
        "fc.bias": tensor("float64", 5),
        "half": tensor("float16", 3, 1),
        "brain": tensor("bfloat16", 7),
        "short": tensor("int16", 1, 1, 1),
        "int": tensor("int32", 2, 2),
        "byte": tensor("int8", 3),
        "mask": tensor("bool", 5),
        "raw \"quoted\" \\ \u00e9\u4e16\n": tensor("uint8", 3),
        "none": tensor("float32", 0, 4),
    }, {"format": "pt"}),
    "empty": ({}, None),
}


def main():
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            for name, found in sorted(safetensors.deserialize(pathlib.Path(path).read_bytes())):
                print(path, repr(name), found["dtype"], found["shape"], len(found["data"]))
        return
    folder = pathlib.Path(__file__).with_name("safetensors")
    folder.mkdir(exist_ok=True)
    for name, (tensors, metadata) in FILES.items():
        (folder / f"{name}.safetensors").write_bytes(safetensors.serialize(tensors, metadata))


if __name__ == "__main__":
    main()
