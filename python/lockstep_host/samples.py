# SPDX-License-Identifier: Apache-2.0
"""Converts a sample's input and target to bytes."""
import struct
from collections.abc import Mapping

from lockstep_host.errors import DATA, Refusal

INPUTS, TARGETS = ("input", "image", "x", "pixel_values", "input_ids"), ("target", "label", "labels", "y")
TYPES = {"uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
         "float32": "F32", "float64": "F32", "bool": "BOOL"}  # Python's floats have 64 bits, and networks compute with 32.


def parts_of(sample):
    """Returns input and target of a sample. The target is 0 if the sample has none. Raises Refusal for a sample of another form."""
    if isinstance(sample, Mapping):
        def value(known):
            return next((sample[name] for name in known if name in sample), None)
        first, second = value(INPUTS), value(TARGETS)
        if first is None:
            raise Refusal(DATA, f"a sample is a dict of {', '.join(map(str, sample))}", "name its input 'input', and its label 'target'")
        return first, 0 if second is None else second
    if isinstance(sample, (tuple, list)):
        if len(sample) != 2:
            raise Refusal(DATA, f"a sample is a {type(sample).__name__} of {len(sample)} values, want (input, target)",
                          "return two, or a dict with 'input' and 'target'")
        return sample
    return sample, 0


def laid_out(value, is_target):
    """Returns a value as (type, shape, bytes-like). Raises Refusal if the value is no tensor, array, PIL image or number."""
    kind = type(value)
    if kind is bool or kind is int:
        return ("I64", [], struct.pack("=q", value)) if is_target else ("F32", [1], struct.pack("=f", value))
    if kind is float:
        return "F32", [1], struct.pack("=f", value)
    if hasattr(value, "getbands"):  # A PIL image becomes [channels, height, width].
        if value.mode not in ("L", "RGB"):
            value = value.convert("RGB")
        bands = value.split()
        return "U8", [len(bands), value.height, value.width], b"".join(each.tobytes() for each in bands)
    name = str(getattr(value, "dtype", kind.__name__)).rpartition(".")[2]
    if name not in TYPES:
        raise Refusal(DATA, f"a sample's {'target' if is_target else 'input'} is {name}, want a tensor, an array, a PIL image or a number",
                      "convert it in the data set's __getitem__")
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if name == "float64" else value).contiguous()
        shape = list(value.shape)
        import torch
        data = value.reshape(-1).view(torch.uint8).numpy() if value.numel() else b""
    else:
        import numpy
        value = numpy.asarray(value, dtype="float32" if name == "float64" else None, order="C")
        shape, data = list(value.shape), value.reshape(-1).view("uint8")
    if is_target and not shape and TYPES[name] == "F32":
        shape = [1]
    if is_target and TYPES[name] in ("U8", "I8", "I16", "I32", "BOOL") and not shape:
        return "I64", [], struct.pack("=q", int(value))
    return TYPES[name], shape, data


def laid_sample(sample):
    return [laid_out(value, place == 1) for place, value in enumerate(parts_of(sample))]
