# SPDX-License-Identifier: Apache-2.0
"""Trains ResNet-18 on photographs in folders, image by image, as a guide to PyTorch does it, with ImageFolder, DataLoader and a validation
each epoch."""
import time

import torch
import torchvision
from torchvision.transforms import v2

import peer


def part(name, steps):
    convert = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return torchvision.datasets.ImageFolder(f"{asked.data}/{name}", v2.Compose([*steps, *convert]))


def main():
    torch.manual_seed(42)
    peer.allow_tf32()
    torch.backends.cudnn.benchmark = True
    train = part("train", [v2.RandomResizedCrop(asked.size), v2.RandomHorizontalFlip()])
    held_out = part("val", [v2.Resize(asked.size * 8 // 7), v2.CenterCrop(asked.size)])
    shared = {"num_workers": asked.workers, "pin_memory": asked.device == "cuda", "persistent_workers": asked.workers > 0}
    loader = torch.utils.data.DataLoader(train, 1, shuffle=True, **shared)
    validation = torch.utils.data.DataLoader(held_out, 64, **shared)
    net = torchvision.models.resnet18(num_classes=2).to(asked.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, fused=True)
    first, ends = None, []
    for _ in range(asked.epochs):
        net.train()
        for at, (x, y) in enumerate(loader):
            x, y = (each.to(asked.device, non_blocking=True) for each in (x, y))
            loss = torch.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if first is None:
                loss.item()
                first = time.time()
            if at + 1 == asked.limit:
                break
        net.eval()
        right = torch.zeros((), device=asked.device)
        with torch.no_grad():
            for x, y in validation:
                right += (net(x.to(asked.device)).argmax(1) == y.to(asked.device)).sum()
                if asked.limit:
                    break
        right.item()
        ends.append(time.time())
    epochs = [end - begin for begin, end in zip([first, *ends], ends)]
    peer.say(first_step_s=first - asked.started, epochs_s=epochs, torch=torch.__version__)


asked = peer.arguments(data="", size=224, epochs=3, workers=8, limit=0, started=0.0)
if __name__ == "__main__":
    main()
