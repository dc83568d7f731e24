# SPDX-License-Identifier: Apache-2.0
"""Trains a module with PyTorch's DistributedDataParallel as a recipe would: python peer.py answers each line that it reads, a SPEC, with
the steps' losses: peer_server.py.

SPEC is JSON: {"source", "object", "args", "data", "world", "steps", "seed", "global_batch", "lr", "momentum", "dtype"}. The
order, the parts of a batch and the seed of each step are those of docs/formats/batches.md.
"""
import gzip
import importlib
import importlib.util
import json
import os
import pathlib
import random
import struct
import sys
import tempfile

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/golden"))
from epoch_order import EpochOrder, mixed, part_of_batch  # noqa: E402
from masked_text import sample  # noqa: E402
from peer_server import serve  # noqa: E402
from synthetic import input_of  # noqa: E402


def idx(name):
    raw = gzip.decompress((SOURCE / "datasets/digits" / f"{name}.gz").read_bytes())
    dims = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)


def data_of(spec, dtype):
    if spec["data"] == "digits":
        images = idx("train-images-idx3-ubyte").unsqueeze(1).to(dtype) / 255
        return images, idx("train-labels-idx1-ubyte").long()
    made = spec["data"]
    if "book" in made:
        return None, pathlib.Path(made["book"]).read_bytes()
    rows = [input_of(i, made["classes"], made["shape"], spec["seed"]) for i in range(made["samples"])]
    inputs = torch.tensor(rows, dtype=torch.float32).to(dtype).view(-1, *made["shape"])
    return inputs, torch.arange(made["samples"]) % made["classes"]


def imported(source):
    if source.endswith(".py"):
        found = importlib.util.spec_from_file_location("net", source)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(source)
    return module


def module_of(spec):
    make = getattr(imported(spec["source"]), spec["object"])
    return make(make.config_class(**spec["args"])) if hasattr(make, "config_class") else make(**spec["args"])


def masked_loss(output, target):
    """A sample's mean over its masked places, then the mean over samples."""
    each = torch.nn.functional.cross_entropy(output.transpose(1, 2), target, reduction="none")
    return (each.sum(1) / (target != -100).sum(1)).mean()


def batch_of(spec, inputs, labels, epoch, ids):
    if inputs is not None:
        return inputs[ids], labels[ids]
    return map(torch.tensor, zip(*(sample(labels, spec["data"]["window"], spec["seed"], epoch, each) for each in ids)))


def scores_of(output):
    return output["logits"] if isinstance(output, dict) else output


def own_optimizers(net):
    """The optimizer and the scheduler, which goes by steps, of a class of stepping.py."""
    net._trainer = type("Trainer", (), {"estimated_stepping_batches": 50, "current_epoch": 0, "global_step": 0})()
    given = net.configure_optimizers()
    return (given["optimizer"], given["lr_scheduler"]) if isinstance(given, dict) else (given[0][0], given[1][0])


def own_loss(net, ddp, given, target, index):
    """training_step() called by DDP's forward, as Lightning does it."""
    net.log = net.log_dict = lambda *_, **__: None
    forward, takes = net.forward, type(net).training_step.__code__.co_argcount - 1

    def stepped(*arguments):
        net.forward = forward
        return net.training_step(*arguments)

    net.forward = stepped
    try:
        loss = ddp(*((given, target), index)[:takes])
    finally:
        net.forward = forward
    return loss["loss"] if isinstance(loss, dict) else loss


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def train(rank, spec, store, out):
    world, batch, seed = spec["world"], spec["global_batch"], spec["seed"]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    dtype = getattr(torch, spec["dtype"])
    torch.manual_seed(seed)
    net = module_of(spec).to(dtype)
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    trained = [each for each in net.parameters() if each.requires_grad]
    optimizer, scheduler = own_optimizers(net) if spec.get("own_steps") else (torch.optim.SGD(trained, lr=spec["lr"], momentum=spec["momentum"]), None)
    inputs, labels = data_of(spec, dtype)
    loss_of = getattr(imported(spec["source"]), spec["loss"]) if "loss" in spec else torch.nn.functional.cross_entropy
    loss_of = loss_of if inputs is not None else masked_loss
    size = len(inputs) if inputs is not None else len(labels) // spec["data"]["window"]
    per_epoch = -(-size // batch)
    losses = []
    for step in range(spec["steps"]):
        epoch, index = divmod(step, per_epoch)
        order = EpochOrder(size, seed, epoch)
        ids = [order[place] for place in part_of_batch(size, index, batch, rank, world)]
        samples = min(batch, size - index * batch)
        seed_all(mixed(mixed(seed, step), mixed(0, rank)))
        given, target = batch_of(spec, inputs, labels, epoch, ids)
        if spec.get("reverse"):
            given, target = given.flip(0), target.flip(0)
        with torch.autocast("cpu", getattr(torch, spec.get("autocast", "bfloat16")), enabled="autocast" in spec):
            loss = own_loss(net, ddp, given, target, index) if spec.get("own_steps") else loss_of(scores_of(ddp(given)), target)
        optimizer.zero_grad()
        (loss * (len(ids) * world / samples)).backward()
        optimizer.step()
        if scheduler is not None and (step + 1) % scheduler.get("frequency", 1) == 0:
            scheduler["scheduler"].step()
        total = torch.tensor([loss.item() * len(ids)], dtype=torch.float64)
        dist.all_reduce(total)
        losses.append(total.item() / samples)
    if rank == 0:
        pathlib.Path(out).write_text(json.dumps(losses))
    dist.barrier()
    # Gloo's threads may outlive what they wait for at the end of a process.
    os._exit(0)


def trained(spec):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "losses.json")
        mp.start_processes(train, args=(spec, os.path.join(folder, "store"), out), nprocs=spec["world"], start_method="fork")
        return json.loads(pathlib.Path(out).read_text())


if __name__ == "__main__":
    serve(trained)
