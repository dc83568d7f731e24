#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order of an epoch's samples and its batches in plain Python, as docs/formats/batches.md has them.

    python epoch_order.py > epoch_order.json       writes what core_epoch_order_test.cc compares with

Or import it: `EpochOrder(size, seed, epoch)[place]`, `part_of_batch(...)`.
"""
import json

MASK64 = 2**64 - 1
ROUNDS = 6


def step(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def mixed(a, b):
    return step(step(a & MASK64) ^ (b & MASK64))


class EpochOrder:
    def __init__(self, size, seed, epoch):
        self.size = size
        self.key = mixed(seed, epoch)
        self.half_bits = 1
        while self.half_bits < 32 and 2 ** (2 * self.half_bits) < size:
            self.half_bits += 1

    def permuted(self, place):
        mask = 2**self.half_bits - 1
        left, right = place >> self.half_bits, place & mask
        for round_number in range(ROUNDS):
            left, right = right, left ^ (mixed(self.key + round_number, right) & mask)
        return left << self.half_bits | right

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        if not 0 <= place < self.size:
            raise IndexError(place)
        place = self.permuted(place)
        while place >= self.size:
            place = self.permuted(place)
        return place


def part_of_batch(size, batch, global_batch, rank, world):
    """The places of `rank`'s part of global batch `batch`, as a range."""
    begin = min(batch * global_batch, size)
    samples = min(global_batch, size - begin)
    least, larger = divmod(samples, world)
    begin += rank * least + min(rank, larger)
    return range(begin, begin + least + (1 if rank < larger else 0))


def split(size, held_out, seed):
    """Ids for training and ids held out for validation."""
    order = EpochOrder(size, seed, -1)
    validation = sorted(order[i] for i in range(held_out))
    return sorted(set(range(size)) - set(validation)), validation


def main():
    wanted = [(1, 0, 0), (2, 0, 0), (3, 7, 1), (4, 0, 0), (5, 2**64 - 1, 3), (10, 0, 0), (10, 0, 1), (10, 1, 0), (16, 9, 9),
              (17, 9, 9), (100, 42, -1), (1437, 0, 0), (50000, 1234567890123456789, 12), (10**10, 5, 6), (2**62 + 1, 8, 2)]
    orders = []
    for size, seed, epoch in wanted:
        order = EpochOrder(size, seed, epoch)
        places = sorted({*range(min(size, 20)), *range(max(size - 5, 0), size), size // 2, size // 3})
        orders.append({"size": size, "seed": seed, "epoch": epoch, "places": places, "ids": [order[i] for i in places]})
    parts = []
    for size, global_batch, world in [(10, 4, 1), (10, 4, 3), (10, 3, 4), (1437, 50, 3), (1437, 50, 4), (2, 64, 4)]:
        batches = -(-size // global_batch)
        for batch in sorted({0, batches - 1}):
            ranges = [part_of_batch(size, batch, global_batch, rank, world) for rank in range(world)]
            parts.append({"size": size, "batch": batch, "global_batch": global_batch, "world": world,
                          "begins": [part.start for part in ranges], "ends": [part.stop for part in ranges]})
    splits = [{"size": size, "held_out": held_out, "seed": seed, "validation": split(size, held_out, seed)[1]}
              for size, held_out, seed in [(10, 3, 0), (100, 10, 7)]]
    print("{")
    print(',\n'.join(f'  "{name}": [\n' + ",\n".join("    " + json.dumps(row) for row in rows) + "\n  ]"
                     for name, rows in (("orders", orders), ("parts", parts), ("splits", splits))))
    print("}")


if __name__ == "__main__":
    main()
