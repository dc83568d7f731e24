#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, as one JSON object, the scalars that the real TensorBoard sees in a run folder: {tag: [[step, value], …]}."""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

accumulator = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0})
accumulator.Reload()
tags = accumulator.Tags()["scalars"]
print(json.dumps({tag: [[point.step, point.value] for point in accumulator.Scalars(tag)] for tag in sorted(tags)}))
