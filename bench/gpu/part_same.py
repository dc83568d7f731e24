# SPDX-License-Identifier: Apache-2.0
"""Checks what must be the same on a GPU: accuracy, PyTorch's losses, and the weights with other layouts, with a graph and after a
resume."""
import contextlib
import json
import math
import os
import pathlib
import signal
import threading

from page import Part, Row
from part_speed import PHOTOGRAPHS, photographs_of
from runs import QUIET, UNVALIDATED, Failure, NotHere

RECIPES = ("digits", "mnist", "hymenoptera")
FLOORS = {"digits": 0.96, "mnist": 0.97, "hymenoptera": 0.64}  # The accuracy that the recipes promise on a CPU.
APART = {"digits": 0.01, "mnist": 0.01, "hymenoptera": 0.08}  # Two standard deviations, with 360, 1000 and 153 held-out samples.
GRAPH = "trainer.graph"
STEPS = 100


def data_of(check, recipe):
    """Returns the settings that name the recipe's data. The digits are part of Lockstep and need none."""
    folder = {"mnist": "mnist10k", "hymenoptera": "hymenoptera"}.get(recipe)
    return [f"data.path={check.data / folder}"] if folder else []


def short(check):
    """Returns the settings that shorten a recipe to a few steps in a rehearsal. A measurement takes all steps."""
    return check.pick([], ["trainer.max_epochs=1", "trainer.limit_train_batches=4", "trainer.limit_val_batches=1"])


class CpuRuns:
    """Runs the same recipes on half of the cores, beside runs on the GPU whose time does not matter."""

    def __init__(self, check):
        self.accuracy = {}
        self.check = check
        self.error = "out of time"
        half = sorted(os.sched_getaffinity(0))[:max(1, len(os.sched_getaffinity(0)) // 2)]
        self.cores = ",".join(map(str, half))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            for recipe in RECIPES:
                run = self.check.train(recipe, *data_of(self.check, recipe), *short(self.check), on_cpu=True, cores=self.cores)
                self.accuracy[recipe] = run.result["val_accuracy"]
        except (Failure, OSError, ValueError) as error:
            self.error = str(error)


def accuracy(check):
    beside = CpuRuns(check)
    ours = {}
    for recipe in RECIPES:
        try:
            ours[recipe] = check.train(recipe, *data_of(check, recipe), *short(check))
        except Failure as error:
            check.gave_up(f"accuracy {recipe}", error)
    beside.thread.join(max(0.0, check.left()))
    for recipe, run in ours.items():
        on_gpu, on_cpu = run.result["val_accuracy"], beside.accuracy.get(recipe)
        text = f"{on_gpu:.4f}; on CPU " + (f"{on_cpu:.4f}" if on_cpu is not None else f"not known ({beside.error})")
        is_whole = recipe != "hymenoptera" or len(photographs_of(check, "train")) >= PHOTOGRAPHS["train"]
        holds = None  # Nothing is there to compare with.
        if is_whole or on_cpu is not None:
            holds = (on_gpu >= FLOORS[recipe] or not is_whole) and (on_cpu is None or abs(on_gpu - on_cpu) <= APART[recipe])
        check.results.found(f"accuracy {recipe}", f"{text}; {run.result['epochs']} epochs, {run.seconds:.1f} s with start-up",
                            holds, gpu=on_gpu, cpu=on_cpu, seconds=run.seconds)


def compared_losses(check, task, precision="fp32"):
    """Returns the losses (Lockstep's, PyTorch's) from the same weights and batches, with deterministic algorithms on both sides."""
    weights = check.work / "peers" / f"{task}-{precision}.pt"
    small = check.work / "peers/small"
    steps = check.pick(STEPS, 4 if task == "hymenoptera" else 20)
    source = {"mnist": check.data / "mnist10k", "hymenoptera": check.data / "hymenoptera"}.get(task, "")
    theirs = check.peer("peer_losses.py", "--task", task, "--data", source, "--weights", weights, "--small", small, "--steps", steps,
                        "--precision", precision)["losses"]
    own = {"mnist": data_of(check, task), "digits": [],
           "hymenoptera": [f"data.path={small}", 'data.transforms=["center_crop(64)", "normalize(imagenet)"]',
                           'data.eval_transforms=["center_crop(64)", "normalize(imagenet)"]', "scheduler.name=constant", UNVALIDATED]}[task]
    run = check.train(task, *own, *QUIET, f"model.weights={weights}", "trainer.deterministic=true", f"trainer.precision={precision}",
                      "observe.log_every=1", f"trainer.max_steps={steps}")
    if len(run.losses) != len(theirs):
        raise Failure(f"{len(run.losses)} losses were logged, want {len(theirs)}")
    return run.losses, theirs


def losses(check):
    for key, task, precision in (("losses digits", "digits", "fp32"), ("losses mnist", "mnist", "fp32"),
                                 ("losses hymenoptera", "hymenoptera", "fp32"), ("losses hymenoptera fp64", "hymenoptera", "fp64")):
        try:
            ours, theirs = compared_losses(check, task, precision)
        except Failure as error:
            check.gave_up(key, error)
            continue
        apart = [abs(one - other) for one, other in zip(ours, theirs)]
        worst = max(range(len(apart)), key=apart.__getitem__)
        beyond = next((at + 1 for at, each in enumerate(apart) if not each <= 1e-4), None)
        text = f"at most {apart[worst]:.1e} apart, at step {worst + 1} of {len(apart)}; the first step {apart[0]:.1e}"
        if beyond:
            text += f"; beyond 1e-4 from step {beyond} on"
        check.results.found(key, text, beyond is None and not math.isnan(sum(apart)), ours=ours, theirs=theirs)


def weights_apart(check, one, other):
    """Returns the largest difference of any weight of two runs."""
    found = json.loads(check.command([check.bin / "lockstep", "snapshot", "diff", "--json", one.folder, other.folder], "diff"))
    if found["only_in_a"] or found["only_in_b"]:
        raise Failure("the two runs have other tensors")
    rows = [row for row in found["different"] if not row["name"].startswith("optimizer: ")]
    if any(row["max_abs"] is None or row["not_finite"] for row in rows):
        raise Failure("the weights are not finite, or of other shapes")
    return max((row["max_abs"] for row in rows), default=0.0)


def ranks(check):
    settings = ["trainer.precision=fp64", "trainer.deterministic=true", f"trainer.max_steps={check.pick(290, 29)}"]
    plain = check.train("digits", *settings, "trainer.strategy=single")
    shared = check.pick(["trainer.share_device=true"], [])
    for key, train in (("ranks nccl", lambda: check.train_through_nccl("digits", *settings)),
                       ("ranks gloo", lambda: check.train("digits", *settings, *shared, "trainer.strategy=ddp", devices=2))):
        try:
            run = train()
            apart = weights_apart(check, plain, run)
            same = run.result["weights_digest"] == plain.result["weights_digest"]
            check.results.found(key, "bit-equal" if same else f"at most {apart:.1e} apart in float64", same or apart <= 1e-9, apart=apart)
        except Failure as error:
            check.gave_up(key, error)
    try:
        healed(check)
    except Failure as error:
        check.gave_up("ranks healed", error)


class KillOfRank:
    """Kills rank 1 of a run of the check once its metrics have a step, from the beginning of a `with` to its end."""

    def __init__(self, check):
        self.mark = f"LOCKSTEP_RUNS={check.work / 'runs'}".encode()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def look(self):
        while not self.ended.wait(0.002):
            for place in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError, ValueError, StopIteration):
                    variables = (place / "environ").read_bytes().split(b"\0")
                    words = (place / "cmdline").read_bytes().decode().split("\0")
                    if b"RANK=1" not in variables or self.mark not in variables:
                        continue
                    metrics = pathlib.Path(words[words.index("--run-dir") + 1]) / "metrics.jsonl"
                    if '"event":"step"' in metrics.read_text().replace(" ", ""):
                        os.kill(int(place.name), signal.SIGKILL)
                        return


def healed(check):
    settings = ["trainer.precision=fp64", "trainer.deterministic=true", "trainer.max_steps=290", "observe.log_every=1",
                *check.pick(["trainer.share_device=true"], []), "trainer.strategy=ddp"]
    whole = check.train("digits", *settings, "trainer.heal=off", devices=2)
    with KillOfRank(check):
        run = check.train("digits", *settings, "trainer.heal=on", devices=2)
    healings = run.lines[-1].get("facts", {}).get("healings")
    if healings != "1":
        raise Failure(f"the run says {healings} healings, want 1")
    apart = weights_apart(check, whole, run)
    same = run.result["weights_digest"] == whole.result["weights_digest"]
    check.results.found("ranks healed", "rank 1 killed and started again; " +
                        ("bit-equal" if same else f"at most {apart:.1e} apart in float64"), same or apart <= 1e-9, apart=apart)


def graph(check):
    if not check.knows(GRAPH):
        raise NotHere(f"this build has no setting {GRAPH}")
    settings = [*data_of(check, "mnist"), *QUIET, "trainer.deterministic=true", "data.global_batch=64", "data.drop_last=true",
                "observe.log_every=10", f"trainer.max_steps={check.pick(300, 20)}"]
    eager = check.train("mnist", *settings, f"{GRAPH}=off")
    graphed = check.train("mnist", *settings, f"{GRAPH}={check.pick('on', 'auto')}")
    if check.is_gpu and not graphed.graph.startswith("whole steps are replayed"):
        raise Failure(graphed.graph or "the run does not say that whole steps are replayed")
    same = eager.result["weights_digest"] == graphed.result["weights_digest"]
    apart = max(abs(one - other) for one, other in zip(eager.losses, graphed.losses))
    text = "weights bit-equal" if same else f"weights {weights_apart(check, eager, graphed):.1e} apart, losses {apart:.1e}"
    check.results.found("graph", f"{text} after {graphed.result['steps']} steps", same or apart <= 1e-6, losses_apart=apart)


def scale_at(run, step):
    state = json.loads((run.folder / f"snapshots/step-{step:010}/state.json").read_text())
    return next(value for name, value in state["numbers"].items() if name.endswith("scaler.scale"))


def scale(check):
    steps = check.pick(2200, 60)
    weights = check.work / "peers/scaler.pt"
    theirs = check.peer("peer_scaler.py", "--weights", weights, "--steps", steps)["scales"]
    settings = [*QUIET[:1], "observe.tensorboard=false", f"model.weights={weights}", "data.global_batch=2", "trainer.precision=fp16",
                "trainer.deterministic=true", "optimizer.name=sgd", "optimizer.lr=2", "snapshot.keep=0"]
    run = check.train("digits", *settings, "snapshot.every_steps=1", "trainer.max_steps=40")
    places = {step: scale_at(run, step) for step in range(1, 41)}
    run = check.train("digits", *settings, f"snapshot.every_steps={steps // 20}", f"trainer.max_steps={steps}")
    places |= {step: scale_at(run, step) for step in range(steps // 20, steps + 1, steps // 20)}
    wrong = [step for step, value in sorted(places.items()) if value != theirs[step - 1]]
    changes = sum(before != after for before, after in zip([65536.0, *theirs], theirs))
    text = f"{len(places)} steps of {steps} looked at, {changes} changes of PyTorch's scale, from {max(theirs):.0f} to {min(theirs):.0f}"
    check.results.found("scale", text + (f"; another scale at steps {wrong[:5]}" if wrong else ""), not wrong, ours=places, wrong=wrong)


def resume(check):
    settings = [*data_of(check, "mnist"), *QUIET[:1], "trainer.deterministic=true", "snapshot.every_steps=20", "snapshot.keep=0"]
    whole = check.train("mnist", *settings, "trainer.max_steps=40")
    halfway = whole.folder / "snapshots/step-0000000020"
    resumed = check.train("mnist", *settings, "trainer.max_steps=40", resume=halfway)
    same = resumed.result["weights_digest"] == whole.result["weights_digest"]
    apart = 0.0 if same else weights_apart(check, whole, resumed)
    check.results.found("resume", "weights bit-equal" if same else f"weights {apart:.1e} apart", same, apart=apart)
    on_cpu = check.train("mnist", *settings, "trainer.max_steps=45", resume=halfway, on_cpu=True)
    exported = check.work / "peers/exported.pt"
    exported.unlink(missing_ok=True)
    check.command([check.bin / "lockstep", "snapshot", "export", whole.folder, "--to", exported], "export")
    found = check.peer("peer_load.py", "--weights", exported)
    check.results.found("load", f"trained on from step {resumed.lines[0]['step']} to {on_cpu.result['steps']} on CPU; torch.load finds "
                        f"{found['tensors']} tensors on {', '.join(found['devices'])}", found["devices"] == ["cpu"], **found)


PARTS = [
    Part("losses", "PyTorch's losses, from the same weights and batches", losses, [
        Row("losses digits", "digits, MLP, 100 steps, float32", "≤ 1e-4"),
        Row("losses mnist", "MNIST, small CNN, 100 steps, float32", "≤ 1e-4"),
        Row("losses hymenoptera", "photographs of 64 pixels, ResNet-18, 100 steps, float32", "≤ 1e-4"),
        Row("losses hymenoptera fp64", "the same in float64", "≤ 1e-4")], 100),
    Part("accuracy", "Accuracy, on the GPU and on CPU", accuracy, [
        Row(f"accuracy {recipe}", f"recipes/{recipe}.toml", f"≥ {FLOORS[recipe]}, within {APART[recipe]} of the CPU's", True)
        for recipe in RECIPES], 100),
    Part("ranks", "The weights of one rank alone, digits", ranks, [
        Row("ranks nccl", "one rank through NCCL", "bit-equal, or ≤ 1e-9 in float64"),
        Row("ranks gloo", "two ranks on one device through Gloo", "bit-equal, or ≤ 1e-9 in float64"),
        Row("ranks healed", "the same two, one of them killed, trainer.heal=on", "bit-equal, or ≤ 1e-9 in float64")], 60),
    Part("graph", "Graph and eager, MNIST", graph, [Row("graph", "deterministic algorithms", "bit-equal, or losses ≤ 1e-6")], 45),
    Part("scale", "fp16's loss scale", scale, [Row("scale", "beside torch.amp.GradScaler", "equal")], 60),
    Part("resume", "Snapshots", resume, [
        Row("resume", "resumed on the GPU at step 20 of 40", "bit-equal"),
        Row("load", "a snapshot from the GPU, on CPU", "loads")], 45),
]
