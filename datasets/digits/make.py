#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the four IDX files of this folder, and SHA256SUMS, from scikit-learn's copy of the UCI digits.

    python make.py [FOLDER]        needs numpy and scikit-learn; the default is this script's own folder

The output depends on nothing but the data: the split comes from numpy's frozen legacy generator with seed 0, and the gzip
headers hold neither name nor time.
"""
import gzip
import hashlib
import io
import pathlib
import struct
import sys

import numpy as np
from sklearn.datasets import load_digits

HELD_OUT = 360
SEED = 0


def stratified_split(labels):
    """Every n-th of the samples, shuffled and then sorted by class: each class gives its share to within one."""
    n = len(labels)
    order = np.random.RandomState(SEED).permutation(n)
    order = order[np.argsort(labels[order], kind="stable")]
    place = np.arange(n)
    is_held_out = (place + 1) * HELD_OUT // n > place * HELD_OUT // n
    return np.sort(order[~is_held_out]), np.sort(order[is_held_out])


def idx_bytes(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 0x08, array.ndim, *array.shape) + array.tobytes()


def gzipped(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    digits = load_digits()
    # Values are whole numbers 0..16. Only v = 8 falls halfway, on 127.5, which rounds to the even 128.
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    train, t10k = stratified_split(labels)
    sums = []
    for prefix, ids in (("train", train), ("t10k", t10k)):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            name = f"{prefix}-{kind}-ubyte.gz"
            data = gzipped(idx_bytes(array[ids]))
            (folder / name).write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
