# SPDX-License-Identifier: Apache-2.0
"""Draws recipes, and the small data sets that they train on.

A drawn recipe is a plain dictionary, so that one that failed is kept as a line of drawn_failures.jsonl:

    {"settings": {"model.name": "mlp", ...}, "ranks": 2, "other_ranks": 3, "stop": 0.4}

`stop` is the share of the run's steps after which a resumed run begins.
"""
import csv
import json
import random
import struct
import zlib

MODELS = {
    "table": ["mlp"],
    "numbers": ["mlp"],
    "points": ["mlp"],
    "images": ["mlp", "resnet18", "vit_b_16"],
    "folder": ["mlp", "resnet18", "vit_b_16"],
    "text": ["bert"],
}
MODEL_SETTINGS = {
    "mlp": lambda draw: {"model.hidden": draw.choice([[8], [16, 8]])},
    "resnet18": lambda draw: {"model.stem": "cifar", "model.zero_init_residual": draw.random() < 0.5},
    "vit_b_16": lambda draw: {"model.patch_size": 4, "model.layers": 1, "model.heads": 2, "model.width": 16,
                              "model.mlp_dim": 32, "model.dropout": draw.choice([0, 0.1])},
    "bert": lambda draw: {"model.layers": 1, "model.heads": 2, "model.width": 16, "model.intermediate": 32,
                          "model.dropout": draw.choice([0, 0.1])},
}


def draw_recipe(seed):
    draw = random.Random(seed)
    data = draw.choice(list(MODELS))
    model = draw.choice(MODELS[data])
    settings = {"model.name": model, **MODEL_SETTINGS[model](draw), **data_settings(draw, data, model)}
    trainer_settings(draw, settings, model)
    optimizer_settings(draw, settings)
    schedule_settings(draw, settings)
    ranks = 1 if settings.get("trainer.strategy") == "single" else draw.choice([1, 2, 2, 3])
    if settings.get("trainer.strategy") == "dp":
        ranks = draw.choice([1, 2])
    return {"settings": settings, "ranks": ranks, "other_ranks": draw.choice([n for n in (1, 2, 3) if n != ranks]),
            "stop": round(draw.uniform(0.1, 0.9), 3)}


def data_settings(draw, data, model):
    heavy = model == "resnet18"
    # Also batches of fewer samples than there are ranks.
    batch = draw.choice([6, 8]) if heavy else draw.choice([1, 2, 3, 5, 8, 12, 20])
    settings = {"data.global_batch": batch, "data.workers": draw.choice([0, 1, 2])}
    if draw.random() < 0.2:
        settings["data.drop_last"] = True
    if draw.random() < 0.1:
        settings["data.shuffle"] = False
    if draw.random() < 0.3:
        settings["data.eval_batch"] = draw.choice([3, 7, 16])
    samples = draw.choice([26, 31]) if heavy else draw.choice([7, 37, 53, 90])
    match data:
        case "points":
            return settings | {"data.kind": "synthetic", "data.samples": samples, "data.classes": 3, "data.shape": [4],
                               "data.split": 0.2}
        case "images":
            return settings | {"data.kind": "synthetic", "data.samples": samples, "data.classes": draw.choice([2, 7]),
                               "data.shape": [3, 8, 8], "data.split": 0.2}
        case "table":
            return settings | {"data.kind": "csv", "data.path": f"table-{samples}.csv", "data.split": 0.25}
        case "numbers":
            return settings | {"data.kind": "csv", "data.path": f"numbers-{samples}.csv", "data.split": 0.25,
                               "data.regression": True}
        case "folder":
            extra = draw.choice([[], ["flip"], ["random_resized_crop(8)", "flip"], ["random_crop(8, padding=2)"]])
            size = [] if any("resized_crop" in each for each in extra) else ["resize(8, 8)"]
            return settings | {"data.kind": "folder", "data.path": "folder-40", "data.split": 0.25,
                               "data.transforms": [*size, *extra]}
        case "text":
            return settings | {"data.kind": "text", "data.path": "text-1200", "data.window": 16, "data.split": 0.2}


def trainer_settings(draw, settings, model):
    settings["trainer.max_epochs"] = draw.choice([2, 3])
    settings["trainer.seed"] = draw.randrange(100)
    settings["trainer.precision"] = draw.choice(["fp64", "fp64", "fp32", "bf16", "fp16"])
    strategy = draw.choice(["auto", "auto", "auto", "ddp", "single", "dp"])
    if strategy != "auto":
        settings["trainer.strategy"] = strategy
    if draw.random() < 0.4:
        settings["trainer.accumulate"] = draw.choice([2, 3])
    if draw.random() < 0.3:
        settings["trainer.average"] = draw.choice(["ema", "swa"])
        settings["trainer.average_from"] = draw.choice([0, 1])
    if draw.random() < 0.3:
        settings["trainer.compression"] = draw.choice(["fp16", "bf16", "powersgd"])
        if settings["trainer.compression"] == "powersgd":
            settings["trainer.compression_start"] = draw.choice([2, 4])
    if draw.random() < 0.3:
        settings["trainer.clip_norm"] = 0.5
    if draw.random() < 0.1:
        settings["trainer.clip_value"] = 0.05
    if draw.random() < 0.5 and model == "resnet18":
        settings["trainer.sync_batchnorm"] = True
    if draw.random() < 0.15:
        settings[draw.choice(["trainer.find_unused_parameters", "trainer.static_graph"])] = True
    if draw.random() < 0.2:
        settings["trainer.limit_train_batches"] = draw.choice([0.5, 2])
    if draw.random() < 0.2:
        settings["trainer.limit_val_batches"] = draw.choice([0.5, 1])
    if draw.random() < 0.15:
        settings["trainer.validate_every"] = draw.choice([0, 2])
    if draw.random() < 0.15:
        settings["trainer.max_steps"] = draw.choice([3, 7])
    if draw.random() < 0.3:
        settings["trainer.bucket_mb"] = 0.001
    if settings.get("trainer.validate_every", 1) == 1:
        metric = draw.choice(["val_loss", "train_loss"])
        if draw.random() < 0.2:
            settings |= {"snapshot.monitor": metric, "snapshot.keep": 1}
        if draw.random() < 0.2:
            settings |= {"early_stopping.monitor": metric, "early_stopping.patience": 1, "early_stopping.min_delta": 0.1}
    if draw.random() < 0.1:
        settings["model.freeze"] = ["*.bias"]


def optimizer_settings(draw, settings):
    name = draw.choice(["sgd", "adam", "adamw"])
    settings["optimizer.name"] = name
    settings["optimizer.lr"] = draw.choice([0.001, 0.01])
    if name == "sgd" and draw.random() < 0.6:
        settings["optimizer.momentum"] = 0.9
        settings["optimizer.nesterov"] = draw.random() < 0.3
    if name != "sgd" and draw.random() < 0.3:
        settings["optimizer.amsgrad"] = True
    if draw.random() < 0.3:
        settings["optimizer.groups"] = ["*.bias lr=0.0005 weight_decay=0"]


def schedule_settings(draw, settings):
    name = draw.choice(["constant", "step", "multistep", "exponential", "cosine", "linear", "onecycle", "plateau"])
    settings["scheduler.name"] = name
    if name == "onecycle":
        settings["scheduler.max_lr"] = 0.02
    elif draw.random() < 0.5:
        settings["scheduler.interval"] = draw.choice(["step", "epoch"])
    if name == "step":
        settings["scheduler.step_size"] = draw.choice([1, 3])
    if name == "multistep":
        settings["scheduler.milestones"] = [1, 4]
    if name == "plateau":
        settings["scheduler.patience"] = 0
        settings["scheduler.monitor"] = draw.choice(["val_loss", "train_loss"])
    if name not in ("onecycle", "plateau") and draw.random() < 0.3:
        settings["scheduler.warmup"] = draw.choice([1, 3])


def arguments(settings):
    """The words that hand settings to `lockstep train`."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]


def write_data(folder):
    """The files that drawn recipes name, relative to the folder."""
    for samples in (7, 37, 53, 90):
        draw = random.Random(samples)
        rows = [[draw.uniform(-2, 5) for _ in range(4)] for _ in range(samples)]
        for name, target in (("table", lambda row: ["low", "mid", "high"][sum(x > 1.5 for x in row) % 3]),
                             ("numbers", lambda row: row[0] - 2 * row[1] + 0.5)):
            with open(folder / f"{name}-{samples}.csv", "w", newline="") as file:
                csv.writer(file).writerows([["a", "b", "c", "d", "target"], *([*row, target(row)] for row in rows)])
    draw = random.Random(7)
    for place in range(40):
        write_png(folder / "folder-40" / ("ant", "bee", "cat")[place % 3] / f"{place}.png", draw, 9 + place % 3, 8 + place % 4)
    (folder / "text-1200").mkdir()
    words = ["lock", "step", "rank", "world", "batch", "epoch"]
    (folder / "text-1200/words.txt").write_text(" ".join(draw.choice(words) for _ in range(220))[:1200])


def write_png(path, draw, height, width):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + draw.randbytes(3 * width) for _ in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
