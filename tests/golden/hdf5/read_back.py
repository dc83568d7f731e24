#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a converted file with the folder that it was made from, by h5py and Pillow: read_back.py FILE.h5 FOLDER"""
import io
import pathlib
import sys

import h5py
import PIL.Image

root = pathlib.Path(sys.argv[2])
with h5py.File(sys.argv[1]) as file:
    assert file.attrs["format"].decode() == "lockstep encoded images 1", file.attrs["format"]
    classes = list(file["classes"].asstr())
    part = file["train"]
    names = list(part["names"].asstr())
    assert classes == sorted(folder.name for folder in root.iterdir()), classes
    assert len(names) == len(part["labels"]) == len(part["index"]) == len(part["xxh3"]) > 0
    for name, label, (offset, length) in zip(names, part["labels"], part["index"]):
        image = part["images"][offset : offset + length].tobytes()
        assert image == (root / name).read_bytes(), name
        assert classes[label] == pathlib.Path(name).parts[0], name
        PIL.Image.open(io.BytesIO(image)).load()
