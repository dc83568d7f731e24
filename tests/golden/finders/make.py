#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rates.json beside this file: what a learning-rate range test makes of three curves of losses.

    python tests/golden/finders/make.py        (numpy)

Smoothing and end are those of Lightning's lr_find, and so is the suggestion up to its version 2.5: where numpy.gradient of
the smoothed losses over the steps, which are even in the rate's logarithm, is least. From 2.6 on Lightning divides by the
rate's own differences, which are smallest where the rates are, so that it suggests one near the start of every curve here.
"""
import json
import math
import pathlib

import numpy

HERE = pathlib.Path(__file__).resolve().parent
KEPT, STOP_FACTOR, STEPS, FROM, TO = 0.98, 4.0, 100, 1e-8, 1.0


def curve(name, t):
    x = t / STEPS
    fall = 1 / (1 + math.exp(-25 * (x - 0.5)))
    if name == "bowl":
        return 2.3 - 1.9 * fall + (math.exp(45 * (x - 0.8)) - 1 if x > 0.8 else 0)
    if name == "noisy":
        return 1.0 - 0.6 * fall + 0.002 * x * math.sin(12.9 * t)
    return 0.7 - 0.3 * fall if x < 0.7 else 0.5 * math.exp(60 * (x - 0.7))


def found(name):
    mean, best, losses, smoothed, rates = 0.0, 0.0, [], [], []
    for t in range(STEPS):
        loss = curve(name, t)
        mean = KEPT * mean + (1 - KEPT) * loss
        value = mean / (1 - KEPT ** (t + 1))
        if t > 1 and value > STOP_FACTOR * best:
            break
        if value < best or t == 0:
            best = value
        losses.append(loss)
        smoothed.append(value)
        rates.append(FROM * (TO / FROM) ** (t / STEPS))
    steepest = 10 + int(numpy.gradient(numpy.array(smoothed[10:-1])).argmin())
    return {"rates": rates, "losses": [curve(name, t) for t in range(STEPS)], "kept": len(losses), "smoothed": smoothed,
            "suggestion": rates[steepest]}


(HERE / "rates.json").write_text(json.dumps({name: found(name) for name in ("bowl", "noisy", "lost")}) + "\n")
