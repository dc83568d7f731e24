#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_data.py FILE: a thousand rows of four numbers and the class of each, written with h5py."""
import sys

import h5py
import numpy

x = numpy.random.default_rng(0).normal(size=(1000, 4)).astype("float32")
with h5py.File(sys.argv[1], "w") as file:
    file["x"] = x
    file["y"] = (3 * x[:, 0] - 2 * x[:, 1] + x[:, 2] * x[:, 3] > 0.5).astype("int64")
