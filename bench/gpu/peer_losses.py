# SPDX-License-Identifier: Apache-2.0
"""Prints the losses of a recipe's first steps in eager PyTorch: --task digits, mnist or hymenoptera.

Writes the weights that it starts from, so that Lockstep can start from them too. The order, the batches and the random split are those
of docs/formats/batches.md, by tests/golden/epoch_order.py. Photographs are first converted to PNG files of 64 × 64 pixels, which both
sides read.
"""
import os
import pathlib

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch  # noqa: E402

import peer  # noqa: E402
from epoch_order import EpochOrder, split  # noqa: E402

PART, SEED_OF = 1000, {"digits": 1, "mnist": 1, "hymenoptera": 42}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
asked = peer.arguments(task="digits", data="", weights="", small="", steps=100, precision="fp32")
DTYPE = torch.float64 if asked.precision == "fp64" else torch.float32


def digits():
    folder = peer.ROOT / "datasets/digits"
    images, labels = (peer.idx(folder / f"train-{name}.gz") for name in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    return images, labels.long(), peer.Mlp(64, 128, 10), 50, lambda x: x.to(DTYPE).div_(255)


def mnist():
    images, labels = peer.mnist(asked.data, "cpu")
    kept, _ = split(len(images), PART, SEED_OF["mnist"])
    return images[kept], labels[kept], peer.Cnn(), 32, lambda x: x.to(DTYPE).div_(255)


def make_small(source, folder):
    """Does resize(73) and center_crop(64) with Pillow, which gives the same pixels as Lockstep."""
    from PIL import Image
    for path in sorted(pathlib.Path(source).glob("*/*/*.jpg")):
        to = folder / path.relative_to(source).with_suffix(".png")
        to.parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(path).convert("RGB")
        side = min(image.size)
        image = image.resize(tuple(int(73 * each / side) for each in image.size), Image.Resampling.BILINEAR)
        left, top = ((each - 64) // 2 for each in image.size)
        image.crop((left, top, left + 64, top + 64)).save(to)


def hymenoptera():
    import numpy
    import torchvision
    from PIL import Image
    folder = pathlib.Path(asked.small)
    if not folder.exists():
        make_small(asked.data, folder)
    images, labels = [], []
    for label, name in enumerate(sorted(each.name for each in (folder / "train").iterdir())):
        for path in sorted((folder / "train" / name).iterdir()):
            images.append(torch.from_numpy(numpy.array(Image.open(path))).permute(2, 0, 1))
            labels.append(label)
    std, mean = (torch.tensor(each, dtype=torch.float32).double().view(1, 3, 1, 1) for each in (STD, MEAN))
    scale, shift = ((1 / (255 * std)).to(asked.device, DTYPE), (-mean / std).to(asked.device, DTYPE))
    net = torchvision.models.resnet18(num_classes=2)
    return torch.stack(images), torch.tensor(labels), net, 16, lambda x: x.to(DTYPE).mul_(scale).add_(shift)


def losses(images, labels, net, batch, prepared):
    adam = asked.task != "hymenoptera"
    net = net.to(asked.device, DTYPE).train()
    lr = 0.015 if asked.task == "digits" else 0.001
    optimizer = (torch.optim.Adam(net.parameters(), lr=lr, fused=True) if adam else
                 torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True))
    images, labels = images.to(asked.device), labels.to(asked.device)
    out = []
    epoch = 0
    while len(out) < asked.steps:
        order = EpochOrder(len(images), SEED_OF[asked.task], epoch)
        ids = torch.tensor([order[place] for place in range(len(images))], device=asked.device)
        for at in ids.split(batch)[:asked.steps - len(out)]:
            loss = torch.nn.functional.cross_entropy(net(prepared(images[at])), labels[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.detach())
        epoch += 1
    return [each.item() for each in out]


torch.manual_seed(SEED_OF[asked.task])
peer.be_deterministic()
images, labels, net, batch, prepared = {"digits": digits, "mnist": mnist, "hymenoptera": hymenoptera}[asked.task]()
torch.save(net.state_dict(), asked.weights)
peer.say(losses=losses(images, labels, net, batch, prepared), torch=torch.__version__)
