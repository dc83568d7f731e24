# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a step with PyTorch's: the small network, ResNet-50 on random batches and on JPEGs, and BERT's shapes."""
import json
import os
import sys

from page import Part, Row
from runs import ROOT, TIMED, UNVALIDATED, Failure, micro

# How PyTorch runs for comparison: plain, with torch.compile, and with torch.compile and CUDA graphs.
CNN_MODES, RESNET_MODES, BERT_MODES = ("eager", "compile", "graphs"), ("eager", "compile"), ("eager", "compile")
DECIDED = 6  # Windows of ten steps, after which a run has found out whether a graph is faster.
PRECISION = ("tf32", "fp32")  # PyTorch's own default for convolutions, and what a CPU has.


def peer_counts(check, window, repeats, warm):
    window, repeats, warm = check.pick((window, repeats, warm), (2, 2, 1))
    return ["--window", window, "--repeats", repeats, "--warm", warm]


def model_of(check):
    return check.pick("resnet50", "resnet18")


def resnet_shape(check):
    return ("--model", model_of(check), *check.pick(("--batch", "256", "--size", "224"), ("--batch", "2", "--size", "32")))


def bert_shape(check):
    return check.pick(("--tokens", "128", "--batch", "256"), ("--width", "64", "--layers", "2", "--heads", "2", "--intermediate", "128",
                                                              "--tokens", "32", "--batch", "4"))


def compiled_peers(check):
    """Returns the scripts that compile, the slowest first."""
    yield "peer_resnet.py", "--mode", "compile", *resnet_shape(check)
    yield "peer_bert.py", "--mode", "compile", *bert_shape(check)
    for mode in CNN_MODES[1:]:
        yield "peer_cnn.py", "--mode", mode, "--data", str(check.data / "mnist10k")


def peers_of(check, script, modes, *arguments):
    """Returns {mode: result of the peer, or why there is none}."""
    found = {}
    for mode in modes:
        try:
            found[mode] = check.peer(script, "--mode", mode, *arguments)
        except Failure as error:
            found[mode] = {"missing": str(error)}
    return found


def beside(ours, theirs):
    """Returns the time of Lockstep's step as text, with each peer's time and the ratio of the two."""
    parts = [micro(ours)]
    for name, found in theirs.items():
        step = found.get("step_s")
        parts.append(f"{name} {micro(step)} ({step / ours:.2f}×)" if step else f"{name}: {found['missing']}")
    return "; ".join(parts)


def ratio(ours, found):
    """Returns the peer's time of a step divided by Lockstep's, or None without a peer."""
    return found["step_s"] / ours if found.get("step_s") else None


def with_graph(text, run):
    return f"{text}; {run.graph}" if run.graph else text


def at_least(value, limit):
    return None if value is None else value >= limit


def not_run(check, keys, theirs):
    """Notes in the rows of a missing peer that it is missing."""
    for key, found in zip(keys, theirs):
        check.results.not_run(key, found["missing"])


def cnn_run(check, *settings):
    window, count = check.pick((4000, 12), (5, 6))
    return check.train("mnist", f"data.path={check.data / 'mnist10k'}", *TIMED, "data.global_batch=64", "data.drop_last=true",
                       f"trainer.precision={check.pick(*PRECISION)}", f"observe.log_every={window}", f"trainer.max_steps={window * count}",
                       *settings)


def cnn_compiled(check, plain_s):
    """Trains the same network with passes that the trainer has Python compile."""
    try:
        run = cnn_run(check, "model.compiled=always")
    except Failure as error:
        check.gave_up("cnn compiled", error)
        return
    used = run.cpu_s(2)
    text = with_graph(f"{micro(run.step_s(2))} ({plain_s / run.step_s(2):.2f}× the plain network's)", run)
    check.results.found("cnn compiled", text + (f"; {micro(used[0])} of CPU time" if used else ""), None, ours=run.windows(2))


def cnn(check):
    run = cnn_run(check)
    ours, data = run.step_s(2), ("--data", check.data / "mnist10k")
    cnn_compiled(check, ours)
    theirs = peers_of(check, "peer_cnn.py", CNN_MODES, *data, *peer_counts(check, 500, 7, 200))
    try:
        theirs["Lightning"] = check.peer("peer_lightning.py", *data, *peer_counts(check, 200, 5, 100))
        if "missing" in theirs["Lightning"]:
            theirs["Lightning"]["missing"] = "not installed there"
    except Failure as error:
        theirs["Lightning"] = {"missing": str(error)}
    check.results.found("cnn step", with_graph(beside(ours, theirs), run), at_least(ratio(ours, theirs["eager"]), 5), ours=run.windows(2),
                        **theirs)
    lightning = ratio(ours, theirs["Lightning"])
    if lightning is None:
        not_run(check, ["cnn lightning"], [theirs["Lightning"]])
    else:
        check.results.found("cnn lightning", f"{lightning:.1f}×", lightning >= 10, ratio=lightning)
    used = run.cpu_s(2)
    if used is None:
        check.results.not_run("cnn cpu", "too short a run to tell")
    else:
        eager = theirs["eager"].get("cpu_s")
        text = f"{micro(used[0])} of the whole process, {micro(used[1])} of the thread that used most"
        check.results.found("cnn cpu", text + (f"; eager {micro(eager)}" if eager else ""), used[0] <= 20e-6, process=used[0],
                            thread=used[1])
    means = run.watch.means(*run.span(2))
    if means is None:
        check.results.not_run("cnn busy", "no NVIDIA driver to ask")
    else:
        check.results.found("cnn busy", f"{means['busy']:.3f}, {means['watts']:.0f} W", means["busy"] >= 0.99, **means)


def resnet_settings(model, batch, window, count):
    return [f"model.name={model}", "optimizer.name=sgd", "optimizer.lr=0.01", "optimizer.momentum=0.9", f"data.global_batch={batch}",
            "data.drop_last=true", *TIMED, f"observe.log_every={window}", f"trainer.max_steps={window * count}"]


def images_per_second(batch, step_s):
    return f"{batch / step_s:.4g} images/s"


def beside_compiled(check, key, ours, theirs):
    compiled = ratio(ours, theirs["compile"])
    if compiled is None:
        not_run(check, [key], [theirs["compile"]])
    else:
        check.results.found(key, f"{compiled:.2f}×", compiled >= 1, ratio=compiled)


def resnet50_run(check, *settings):
    """Returns (run, seconds of a step, batch, side of the images). The samples are few enough to be kept on the device."""
    window, count, skip = check.pick((10, 12, DECIDED), (1, 4, 1))
    batch, side = check.pick((256, 224), (2, 32))
    run = check.train("digits", *resnet_settings(model_of(check), batch, window, count), "trainer.precision=bf16", "data.kind=synthetic",
                      "data.classes=1000", f"data.samples={batch * 6}", f"data.shape=[3,{side},{side}]", *settings)
    return run, run.step_s(skip), batch, side


def resnet50_peers(check):
    return peers_of(check, "peer_resnet.py", RESNET_MODES, *resnet_shape(check), *peer_counts(check, 10, 6, 20), "--traffic", 1)


def resnet50(check):
    run, ours, batch, side = resnet50_run(check)
    theirs = resnet50_peers(check)
    check.results.found("resnet50 step", with_graph(f"{images_per_second(batch, ours)}, a step {beside(ours, theirs)}", run),
                        at_least(ratio(ours, theirs["eager"]), 1.25), ours=ours, batch=batch, **theirs)
    beside_compiled(check, "resnet50 compile", ours, theirs)
    traffic, copy = theirs["eager"].get("traffic_bytes"), check.results.facts.get("copy_gb_s")
    if traffic is None:
        not_run(check, ["resnet50 bandwidth"], [theirs["eager"]])
    else:
        rate = traffic / ours / 1e9
        share = f", {rate / copy:.0%} of a copy's {copy:.0f} GB/s" if copy else ""
        text = f"{traffic / batch / 1e6:.0f} MB an image, {rate:.0f} GB/s{share}"
        check.results.found("resnet50 bandwidth", text, bytes=traffic, rate=rate)
    jpegs(check, ours, batch, side)


def inductor(check):
    """Trains the same network on the same batches, with the passes that python/compile_model.py compiles."""
    package, before = check.work / "resnet.pt2", check.left()
    batch, side = check.pick((256, 224), (2, 32))
    check.command([sys.executable, ROOT / "python/compile_model.py", f"torchvision.models:{model_of(check)}", package, "--batch", batch,
                   "--shape", f"3,{side},{side}", "--precision", "bf16", "--device", check.pick("cuda", "cpu"),
                   "--stages", 1, "--set", "num_classes=1000"], "compile-model")
    compiled_s = before - check.left()
    run, ours, batch, side = resnet50_run(check, f"model.compiled={package}")
    # The row may come from an earlier part, or from an earlier call that was taken over.
    theirs = {mode: found for mode, found in check.results.rows["resnet50 step"].numbers.items() if mode in RESNET_MODES}
    theirs = theirs or resnet50_peers(check)
    text = f"{images_per_second(batch, ours)}, a step {beside(ours, theirs)}; compiled in {compiled_s:.0f} s"
    check.results.found("inductor step", with_graph(text, run), at_least(ratio(ours, theirs["eager"]), 1.25), ours=ours, batch=batch)
    beside_compiled(check, "inductor compile", ours, theirs)


PHOTOGRAPHS = {"train": 244, "val": 153}  # The numbers in the whole set. An archive contains some of them.


def photographs_of(check, part):
    return sorted((check.data / "hymenoptera" / part).glob("*/*.jpg"))


def many_photographs(check, times):
    """Makes a folder with as many photographs as the whole set, and `times` as many to train on. They are links to the photographs that
    are here, and each is decoded again."""
    folder = check.work / f"photographs-{times}"
    if (folder / "val").is_dir():
        return folder  # An earlier part made it. The part that is read last is made last.
    for part, count in PHOTOGRAPHS.items():
        here = photographs_of(check, part)
        for label in {path.parent.name for path in here}:
            (folder / part / label).mkdir(parents=True, exist_ok=True)
        for at in range(count * (times if part == "train" else 1)):
            path = here[at % len(here)]
            link = f"{folder}/{part}/{path.parent.name}/{at // len(here):03}-{path.name}"
            if not os.path.lexists(link):
                os.symlink(path, link)
    return folder


def jpegs(check, synthetic_s, batch, side):
    window, count, skip = check.pick((10, 12, DECIDED), (1, 4, 1))
    folder = many_photographs(check, check.pick(24, 1))
    transforms = [f"random_resized_crop({side})", "flip"]
    asked = [check.bin / "lockstep", "bench", "loader", folder, "--workers", len(os.sched_getaffinity(0)),
             "--epochs", check.pick(2, 1), *(word for each in transforms for word in ("--transform", each)), "--json"]
    decoded = json.loads(check.command(asked, "decode").splitlines()[-1])["rates"][0]["samples_per_second"]
    shown = ", ".join(f'"{each}"' for each in [*transforms, "normalize(imagenet)"])
    run = check.train("hymenoptera", *resnet_settings(model_of(check), batch, window, count), "trainer.precision=bf16",
                      "scheduler.name=constant", UNVALIDATED, f"data.path={folder}", f"data.transforms=[{shown}]",
                      f'data.eval_transforms=["resize({side})", "center_crop({side})", "normalize(imagenet)"]')
    rate, synthetic = batch / run.step_s(skip), batch / synthetic_s
    text = with_graph(f"{rate:.0f} images/s, {rate / synthetic:.2f} of made-up batches'; the cores decode {decoded:.0f}", run)
    check.results.found("resnet50 jpeg", text, rate >= 0.95 * min(synthetic, decoded), rate=rate, synthetic=synthetic, decode=decoded)


def bert(check):
    window, count, skip = check.pick((10, 12, DECIDED), (1, 4, 1))
    tokens, batch = check.pick((128, 256), (32, 4))
    shape = check.pick(("model.width=768", "model.layers=12", "model.heads=12", "model.intermediate=3072"),
                       ("model.width=64", "model.layers=2", "model.heads=2", "model.intermediate=128"))
    text = check.work / "text.txt"
    text.write_bytes(b"".join(path.read_bytes() for path in sorted(ROOT.glob("lockstep/**/*.cc"))))
    run = check.train("bert", *shape, "model.dropout=0.1", f"data.path={text}", f"data.window={tokens}", f"data.global_batch={batch}",
                      "data.drop_last=true", "trainer.precision=bf16", "scheduler.name=constant", "optimizer.lr=0.0001", *TIMED,
                      f"observe.log_every={window}", f"trainer.max_steps={window * count}")
    ours = run.step_s(skip)
    theirs = peers_of(check, "peer_bert.py", BERT_MODES, *bert_shape(check), *peer_counts(check, 10, 5, 10))
    for found in theirs.values():
        if found.get("missing") == "transformers":
            found["missing"] = "not installed there"
    check.results.found("bert step", with_graph(f"{batch * tokens / ours:.0f} tokens/s, a step {beside(ours, theirs)}", run), None,
                        ours=run.windows(skip), **theirs)


PARTS = [
    Part("cnn", "The small network on MNIST, batch 64", cnn, [
        Row("cnn step", "a step beside PyTorch's", "≥ 5 × eager", True),
        Row("cnn compiled", "the network compiled by `model.compiled`"),
        Row("cnn lightning", "Lightning's step over Lockstep's", "≥ 10", True),
        Row("cnn cpu", "CPU time a step", "≤ 20 µs", True),
        Row("cnn busy", "busy share of the device, as its driver counts", "≥ 0.99", True)], 75),
    Part("resnet50", "ResNet-50, 224 pixels, bf16, batch 256", resnet50, [
        Row("resnet50 step", "made-up batches, beside eager (channels_last, autocast)", "≥ 1.25 × eager", True),
        Row("resnet50 compile", "torch.compile's step over Lockstep's", "≥ 1.0", True),
        Row("resnet50 bandwidth", "what the operators of a step read and write, and its rate"),
        Row("resnet50 jpeg", "from JPEGs, cropped and flipped", "≥ 0.95 of made-up batches', or of what the cores decode", True)], 150),
    Part("inductor", "ResNet-50 as above, its passes compiled ahead by Inductor (model.compiled)", inductor, [
        Row("inductor step", "made-up batches, beside eager (channels_last, autocast)", "≥ 1.25 × eager", True),
        Row("inductor compile", "torch.compile's step over Lockstep's", "≥ 1.0", True)], 200),
    Part("bert", "BERT's base shapes, bf16, 256 × 128 tokens", bert, [
        Row("bert step", "a step beside Hugging Face's network in PyTorch")], 90),
]
