# SPDX-License-Identifier: Apache-2.0
"""Answers the questions of two guides with this device's numbers: photographs one by one for 50 epochs, and ResNet-152 on images of
CIFAR-100's shape."""
import os
import statistics
import time

from page import Part, Row
from part_speed import (DECIDED, PHOTOGRAPHS, PRECISION, beside, images_per_second, many_photographs, peer_counts, peers_of, photographs_of,
                        resnet_settings, with_graph)
from runs import Failure, micro

EPOCHS, CIFAR = 50, 50_000


def photographs(check):
    side, epochs, limit = check.pick((224, EPOCHS, 0), (64, 1, 4))
    data, here = many_photographs(check, 1), len(photographs_of(check, "train"))
    run = check.train("hymenoptera", f"data.path={data}", "data.batch=1", f"trainer.max_epochs={epochs}", "optimizer.lr=0.001",
                      "scheduler.name=constant", f"trainer.precision={check.pick(*PRECISION)}", "snapshot.every_epochs=0",
                      f"trainer.limit_train_batches={limit}", f"trainer.limit_val_batches={limit}",
                      f'data.transforms=["random_resized_crop({side})", "flip", "normalize(imagenet)"]',
                      f'data.eval_transforms=["resize({side * 8 // 7})", "center_crop({side})", "normalize(imagenet)"]')
    first, accuracy = run.result["time_to_first_step_s"], run.result["val_accuracy"]
    text = with_graph(f"{run.seconds:.1f} s, the first step after {first:.1f} s; accuracy {accuracy:.2f}", run)
    if here < PHOTOGRAPHS["train"]:
        text += f" ({here} photographs repeated to {PHOTOGRAPHS['train']})"
    numbers = {"seconds": run.seconds, "accuracy": accuracy}
    try:
        theirs = check.peer("peer_images.py", "--data", data, "--size", side, "--epochs", check.pick(3, 1), "--limit", limit,
                            "--workers", min(8, len(os.sched_getaffinity(0))), "--started", time.time())
        later = statistics.median(theirs["epochs_s"][1:] or theirs["epochs_s"])
        whole = theirs["first_step_s"] + theirs["epochs_s"][0] + (epochs - 1) * later
        text += f"; PyTorch {whole:.0f} s, reckoned from {len(theirs['epochs_s'])} epochs of {later:.1f} s"
        numbers |= {"eager": theirs, "eager_seconds": whole}
    except Failure as error:
        text += f"; PyTorch: {error}"
    check.results.found("photographs", text, run.seconds <= 20, **numbers)


def cifar_settings(check, model, batch):
    window, count = check.pick((10, 12), (1, 4))
    return [*resnet_settings(model, batch, window, count), "model.stem=cifar", "data.kind=synthetic", "data.classes=100",
            "data.shape=[3,32,32]", f"data.samples={batch * 50}", "scheduler.name=constant", f"trainer.precision={check.pick(*PRECISION)}"]


def described(run, batch, skip, theirs):
    """Returns the run's numbers as text and as values, with those of the peers beside them."""
    step, means = run.step_s(skip), run.watch.means(*run.span(skip))
    text = f"{images_per_second(batch, step)}, {CIFAR / batch * step:.0f} s an epoch of 50 000, a step {beside(step, theirs)}"
    if run.peak_bytes:
        text += f"; tensors of at most {run.peak_bytes / 2**30:.1f} GiB"
    if means:
        text += f"; the device holds {means['gib']:.1f} GiB, draws {means['watts']:.0f} W, is busy {means['busy']:.2f}"
    return text, {"step_s": step, "batch": batch, "device": means, "peak_bytes": run.peak_bytes, "graph": run.graph}


def cifar(check):
    batch, skip = check.pick((128, DECIDED), (2, 1))
    deeper, shallower = check.pick(("resnet152", "resnet50"), ("resnet34", "resnet18"))
    deep = check.train("cifar100", *cifar_settings(check, deeper, batch))
    theirs = peers_of(check, "peer_resnet.py", ("eager",), "--model", deeper, "--stem", "cifar", "--precision", "tf32", "--classes", 100,
                      "--batch", batch, "--size", 32, *peer_counts(check, 10, 5, 10))
    step = deep.step_s(skip)
    text, numbers = described(deep, batch, skip, theirs)
    check.results.found("cifar 152", with_graph(text, deep), None, **numbers, **theirs)

    begin = deep.lines[0]["time"]
    first = (deep.steps[0]["time"] - begin) / deep.steps[0]["step"]
    check.results.found("cifar first", f"each of the first {deep.steps[0]['step']} steps takes {first / step:.1f} times a later one's "
                        f"{micro(step)}; the first of all ended {deep.result['time_to_first_step_s']:.1f} s after the start", None,
                        first_s=first)

    small = check.train("cifar100", *cifar_settings(check, shallower, batch))
    text, numbers = described(small, batch, skip, {})
    counts = [run.lines[0]["parameters"] for run in (deep, small)]
    check.results.found("cifar 50", f"{text}; {step / small.step_s(skip):.2f} times as fast, and the deep one has "
                        f"{counts[0] / counts[1]:.2f} times its parameters", None, **numbers)

    doubled = check.train("cifar100", *cifar_settings(check, deeper, 2 * batch))
    text, numbers = described(doubled, 2 * batch, skip, {})
    check.results.found("cifar doubled", f"{text}; {2 * step / doubled.step_s(skip):.2f} times the images a second", None, **numbers)

    try:
        nccl = check.train_through_nccl("cifar100", *cifar_settings(check, deeper, batch))
        check.results.found("cifar ddp", f"{micro(nccl.step_s(skip))}, {nccl.step_s(skip) / step:.3f} times the plain step", None,
                            step_s=nccl.step_s(skip))
    except Failure as error:
        check.gave_up("cifar ddp", error)


PARTS = [
    Part("photographs", "Ants and bees, ResNet-18, 50 epochs image by image (a guide: 364 s on one A100, 76 s on sixteen)", photographs, [
        Row("photographs", "from the command to its end", "≤ 20 s", True)], 75),
    Part("cifar", "ResNet-152 on CIFAR-100's shapes, batch 128, TF32", cifar, [
        Row("cifar 152", "ResNet-152: speed, memory, power; eager PyTorch beside it"),
        Row("cifar first", "why the first epoch is slower: what the first steps cost"),
        Row("cifar 50", "ResNet-50 against it"),
        Row("cifar doubled", "ResNet-152, batch doubled"),
        Row("cifar ddp", "the cost of DDP: ResNet-152 through NCCL, one rank")], 100),
]
