#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The samples of data.kind = "synthetic" in plain Python, as core_sources.h and core_synthetic_source.cc have them.

    python synthetic.py > synthetic.json       writes what core_sources_test.cc compares with, exactly
"""
import json
import math

from epoch_order import MASK64, mixed


def input_of(sample, classes, shape, seed):
    numbers = math.prod(shape)
    base = 2
    while base**numbers < classes:
        base += 1
    digits = []
    while base ** len(digits) < classes or not digits:
        digits.append(sample % classes // base ** len(digits) % base)
    values = []
    for i in range(numbers):
        sign = 1 if mixed(~seed & MASK64, i) & 1 else -1
        bits = mixed(mixed(seed, sample), i)
        noise = sum(bits >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 2 * 0xFFFF
        values.append(sign * (2 * digits[i % len(digits)] - (base - 1)) + noise / 2**17)
    return values


def main():
    wanted = [(0, 2, [2], 0), (999, 2, [2], 0), (7, 10, [2], 3), (24, 25, [1], 1), (1234567, 10, [1, 3, 4], 2**64 - 1)]
    rows = [{"sample": sample, "classes": classes, "shape": shape, "seed": seed,
             "input": input_of(sample, classes, shape, seed)} for sample, classes, shape, seed in wanted]
    print("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]")


if __name__ == "__main__":
    main()
