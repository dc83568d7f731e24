#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small HDF5 files as h5py users write them, each with a part of its own that our reader must take.

    python make.py        needs h5py, numpy

Sample i of an array is i in its first number and counts on; its label is i % 3.
"""
import pathlib

import h5py
import numpy as np

HERE = pathlib.Path(__file__).parent
IMAGES = HERE.parent / "images"


def samples(shape, dtype):
    count = int(np.prod(shape[1:]))
    return np.stack([(np.arange(count) + i) % 251 for i in range(shape[0])]).reshape(shape).astype(dtype)


def main():
    labels = np.arange(7) % 3
    with h5py.File(HERE / "arrays.h5", "w") as file:
        for name, shape, dtype, options in [("whole", (7, 3, 4, 5), "u1", {}), ("chunked", (7, 3, 4, 5), "u1", {"chunks": (2, 3, 4, 5)}),
                                            ("gzip", (7, 4, 5, 3), "u1", {"chunks": (2, 4, 5, 3), "compression": "gzip"}),
                                            ("cut", (7, 4, 5), "u1", {"chunks": (3, 2, 5)}), ("floats", (7, 6), "f4", {}),
                                            ("big_endian", (7, 6), ">f4", {}), ("resizable", (7, 6), "f8", {"maxshape": (None, 6)})]:
            file.create_dataset(f"{name}/x", data=samples(shape, dtype), **options)
            file.create_dataset(f"{name}/y", data=labels.astype({"floats": "i1", "chunked": ">i4"}.get(name, "i8")))
        file.create_dataset("sparse/x", shape=(7, 6), dtype="u1", chunks=(2, 6))
        file["sparse/x"][4] = np.arange(6)
        file.create_dataset("sparse/y", data=labels)
        file.create_dataset("fewer/x", data=samples((5, 2), "u1"))
        file.create_dataset("fewer/y", data=labels)
        file.create_dataset("negative/x", data=samples((7, 2), "u1"))
        file.create_dataset("negative/y", data=labels - 1)
        file.create_dataset("complex/x", data=np.zeros((7, 2), "c8"))
        file.create_dataset("complex/y", data=labels)
    with h5py.File(HERE / "encoded.h5", "w") as file:
        images = [(IMAGES / name).read_bytes() for name in ("420.jpg", "rgb.png", "grey.jpg")]
        rows = file.create_dataset("train/images", (3,), dtype=h5py.vlen_dtype(np.uint8))
        for i, image in enumerate(images):
            rows[i] = np.frombuffer(image, np.uint8)
        file["train/labels"] = np.array([0, 1, 0])
        file["val/images"] = np.frombuffer(b"".join(images), np.uint8)
        ends = np.cumsum([len(image) for image in images])
        file["val/index"] = np.stack([ends - [len(image) for image in images], [len(image) for image in images]], 1)
        file["val/labels"] = np.array([1, 1, 0])
        file["classes"] = ["ants", "bees"]


if __name__ == "__main__":
    main()
