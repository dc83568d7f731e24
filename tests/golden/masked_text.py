# SPDX-License-Identifier: Apache-2.0
"""The samples of data.kind = "text" in plain Python, as docs/guide/data.md has them: windows of bytes, some of them masked."""
from epoch_order import mixed

MASK_ID, IGNORED = 256, -100


class Draws:
    def __init__(self, seed, *key):
        self.state, self.count = seed, 0
        for each in (*key, 0):
            self.state = mixed(self.state, each)

    def bits(self):
        self.count += 1
        return mixed(self.state, self.count - 1)

    def uniform(self):
        return (self.bits() >> 11) * 2.0**-53


def sample(text, window, seed, epoch, place):
    """Ids and targets of one window."""
    draws = Draws(seed, epoch, place)
    ids = list(text[place * window:(place + 1) * window])
    target = [IGNORED] * window

    def mask(i):
        target[i] = ids[i]
        which = draws.uniform()
        ids[i] = MASK_ID if which < 0.8 else draws.bits() * 256 >> 64 if which < 0.9 else ids[i]

    for i in range(window):
        if draws.uniform() < 0.15:
            mask(i)
    if all(each == IGNORED for each in target):
        mask(draws.bits() * window >> 64)
    return ids, target
