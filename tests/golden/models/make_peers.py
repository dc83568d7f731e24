#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what torchvision's and Hugging Face's models give, for peer_test.cc: names and shapes, initial weights of a seed,
and for weights and inputs made by a formula the outputs, gradients and the step after one of SGD.

    python tests/golden/models/make_peers.py

Made with: torch 2.11.0 (CPU), torchvision 0.26.0, transformers 4.57.6.

Numbers are float64's. They are golden for float32 as well: input_number is the first for which PyTorch's own float32 stands
within 8e-6 of them, which it does where no ReLU has an input so near zero that rounding decides on its sign.
"""
import functools
import json
import math
import pathlib

import torch
import torch.nn.functional as F
import torchvision
from transformers import BertConfig, BertForMaskedLM

HERE = pathlib.Path(__file__).parent
CLASSES = 5
LR = 0.01
SEED = 7
PRIME = 1000003


def whole_numbers(count, number):
    """From 0 to PRIME - 1, exact in int64; `number` tells tensors apart."""
    k = torch.arange(count, dtype=torch.int64)
    return (k * k % PRIME * 7919 + k * 104729 + number * 15485863) % PRIME


@functools.cache
def flat_numbers(count, number):
    return whole_numbers(count, number).double() / PRIME - 0.5


def numbers(shape, number):
    """From -0.5 to 0.5."""
    return flat_numbers(math.prod(shape), number).reshape(shape)


def filled(name, shape, number, last_norm):
    """Weights under which activations stay moderate and few inputs of a ReLU lie near zero."""
    v = numbers(shape, number)
    if len(shape) == 4:
        return v * math.sqrt(24 / math.prod(shape[1:]))
    if len(shape) > 1:
        return v * math.sqrt(12 / shape[-1])
    if last_norm in name:
        return v * 0.2 + (0.2 if name.endswith("weight") else 0)
    is_norm_of_channels = "bn" in name or "downsample" in name
    if name.endswith("bias"):
        return v * 0.4 + (0.8 if is_norm_of_channels else 0)
    return v * 0.2 + (0.4 if is_norm_of_channels and ".bn2." not in name else 0.8)


def fill(model, last_norm):
    with torch.no_grad():
        for i, (name, parameter) in enumerate(model.named_parameters()):
            parameter.copy_(filled(name, parameter.shape, i, last_norm))
        for i, (name, buffer) in enumerate(model.named_buffers()):
            if buffer.is_floating_point():
                buffer.copy_(numbers(buffer.shape, 5000 + i) + (1 if name.endswith("running_var") else 0))


def row(tensor, number, first=0):
    """The norm, the sum weighted by the formula's numbers, and the first numbers."""
    flat = tensor.detach().double().flatten()
    return [flat.norm().item(), (flat * numbers(flat.shape, number)).sum().item(), *flat[:first].tolist()]


def record(case, input_number, dtype):
    model = case["make"]()
    fill(model, case["last_norm"])  # In float32 first: both types then start from the same weights.
    model = model.to(dtype)
    batch, loss_of = case["batch"](input_number, dtype)

    def forward():
        output = model(batch)
        return getattr(output, "logits", output)

    model.eval()
    with torch.no_grad():
        out = {"eval": forward().double().flatten().tolist()[:case["outputs"]]}
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for step in ("first", "second"):
        optimizer.zero_grad()
        output = forward()
        loss = loss_of(output)
        loss.backward()
        first = 3 if step == "first" and case["shows_first"] else 0
        out[step] = {"output": output.detach().double().flatten().tolist()[:case["outputs"]], "loss": loss.item(),
                     "gradients": [row(p.grad, i, first) for i, p in enumerate(model.parameters())]}
        optimizer.step()
    out["buffers"] = [row(b, i) for i, b in enumerate(model.buffers()) if b.is_floating_point()]
    return out


def distance(a, b):
    """The largest relative difference, measured as peer_test.cc does."""
    def of(x, y, scale):
        return max(abs(p - q) for p, q in zip(x, y)) / scale
    worst = of(a["eval"], b["eval"], max(map(abs, a["eval"])))
    for step in ("first", "second"):
        x, y = a[step], b[step]
        worst = max(worst, of(x["output"], y["output"], max(map(abs, x["output"]))), abs(x["loss"] / y["loss"] - 1))
        floor = 1e-2 * max(r[0] for r in x["gradients"])
        worst = max([worst, *(of(r, s, max(r[0], floor)) for r, s in zip(x["gradients"], y["gradients"]))])
    return max([worst, *(of(r, s, r[0]) for r, s in zip(a["buffers"], b["buffers"]))])


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def entries(model):
    return [f"{name} {list(tensor.shape)}" for name, tensor in model.state_dict().items()]


def golden(case):
    flat_numbers.cache_clear()
    for input_number in range(9000, 9040):
        exact = record(case, input_number, torch.float64)
        off = distance(exact, record(case, input_number, torch.float32))
        print(case["name"], input_number, f"float32 is off by {off:.1e}", flush=True)
        if off < 8e-6:
            return rounded({"input_number": input_number, "entries": entries(case["make"]()), **exact})
    raise SystemExit(f"{case['name']}: no input found that float32 can do")


def images(shape):
    def batch(input_number, dtype):
        target = torch.arange(shape[0]) % CLASSES
        return (numbers(shape, input_number) * 4).to(dtype), lambda output: F.cross_entropy(output, target)
    return batch


def resnet(name, stem, shape):
    def make():
        model = getattr(torchvision.models, name)(num_classes=CLASSES)
        if stem == "cifar":
            model.conv1 = torch.nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
            model.maxpool = torch.nn.Identity()
        return model
    deep = name not in ("resnet18", "resnet34")
    return {"name": f"{name}-{stem}", "make": make, "batch": images(shape), "last_norm": ".bn3." if deep else ".bn2.",
            "shows_first": name in ("resnet18", "resnet50"), "outputs": 100}


def vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32,
                                                mlp_dim=64, num_classes=CLASSES)


def bert(**settings):
    config = dict(vocab_size=37, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                  max_position_embeddings=24, hidden_dropout_prob=0, attention_probs_dropout_prob=0, pad_token_id=None)
    return BertForMaskedLM(BertConfig(**{**config, **settings}))


def text(input_number, dtype):
    """Ids, and as target the ids of a third of the places; the others are -100."""
    ids, target = (whole_numbers(3 * 20, input_number + i).remainder(37).reshape(3, 20) for i in (0, 1))
    target = torch.where(torch.arange(60).reshape(3, 20) % 3 == 0, target, -100)
    return ids, lambda output: F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=-100)


def initial(model_of):
    torch.manual_seed(SEED)
    return rounded([row(p, i) for i, p in enumerate(model_of().parameters())])


def write(name, content):
    """One line for each entry of the innermost lists of rows."""
    text = json.dumps(content, indent=0, separators=(",", ":"))
    out, depth = [], 0
    for line in text.split("\n"):
        closes = line[:1] in "]}"
        depth -= closes
        out.append(line if depth > 2 else "\n" + line)
        depth += line.endswith(("[", "{"))
    (HERE / name).write_text("".join(out).strip() + "\n")


cases = [resnet("resnet18", "imagenet", (2, 3, 64, 64)), resnet("resnet18", "cifar", (2, 3, 16, 16)),
         resnet("resnet34", "imagenet", (2, 3, 64, 64)), resnet("resnet50", "imagenet", (2, 3, 64, 64)),
         resnet("resnet101", "imagenet", (2, 3, 64, 64)), resnet("resnet152", "cifar", (2, 3, 16, 16))]
write("resnet.json", {case["name"]: golden(case) for case in cases})
transformers = [
    {"name": "vit", "make": vit, "batch": images((3, 3, 32, 32)), "last_norm": "-", "shows_first": True, "outputs": 100},
    {"name": "bert", "make": bert, "batch": text, "last_norm": "-", "shows_first": True, "outputs": 100}]
write("transformers.json", {case["name"]: golden(case) for case in transformers})
write("initial.json", {"resnet18": initial(lambda: torchvision.models.resnet18(num_classes=CLASSES)),
                       "resnet50": initial(lambda: torchvision.models.resnet50(num_classes=CLASSES)),
                       "vit": initial(vit)})
write("names.json", {
    "vit_b_16": entries(torchvision.models.vit_b_16()),
    "bert": entries(bert(vocab_size=257, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
                         max_position_embeddings=512))})

# Files as the two libraries write them, and what their models make of an input.
tiny_vit = torchvision.models.VisionTransformer(image_size=8, patch_size=4, num_layers=1, num_heads=2, hidden_dim=8,
                                                mlp_dim=16, num_classes=CLASSES)
tiny_bert = bert(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=20)
outputs = {}
for name, model, batch in (("vit", tiny_vit, images((2, 3, 8, 8))), ("bert", tiny_bert, text)):
    fill(model, "-")
    with torch.no_grad():
        output = model.eval()(batch(1, torch.float32)[0])
    outputs[name] = rounded(getattr(output, "logits", output).double().flatten().tolist()[:100])
torch.save(tiny_vit.state_dict(), HERE / "files" / "torchvision_vit.pt")
tiny_bert.save_pretrained(HERE / "files" / "hugging_face_bert")
write("files.json", outputs)
