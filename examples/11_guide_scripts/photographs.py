# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 on folders of photographs, such as the ants and bees of PyTorch's tutorial: photographs.py FOLDER [EPOCHS [SIZE]]

FOLDER has train/ and val/, each with one folder a class. The lines that end with `# lockstep` are all that was added.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

import lockstep  # lockstep

FOLDER = sys.argv[1]
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 25
SIZE = int(sys.argv[3]) if len(sys.argv) > 3 else 224
NORMALIZE = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def accuracy(model, loader, device):
    model.eval()
    right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            right += int((model(images.to(device)).argmax(1).cpu() == labels).sum())
            count += len(labels)
    model.train()
    return right / count


def main():
    torch.manual_seed(42)
    several = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if several:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    augment = transforms.Compose([transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.ToTensor(), NORMALIZE])
    plain = transforms.Compose([transforms.Resize((SIZE, SIZE)), transforms.ToTensor(), NORMALIZE])
    train = datasets.ImageFolder(os.path.join(FOLDER, "train"), augment)
    test = datasets.ImageFolder(os.path.join(FOLDER, "val"), plain)
    net = models.resnet18(num_classes=len(train.classes)).to(device)
    model = DistributedDataParallel(net) if several else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    loader = DataLoader(train, batch_sampler=lockstep.Sampler(train, batch=4, seed=42), num_workers=2)  # lockstep: the sampler
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler, monitor="val_accuracy", mode="max", every_steps=20)  # lockstep
    for epoch in run.epochs(EPOCHS):  # lockstep
        for images, labels in run.steps(loader):  # lockstep
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device)) * run.weight  # lockstep: the weight
            loss.backward()
            optimizer.step()
            run.log(loss=loss)  # lockstep
        scheduler.step()
        run.log(val_accuracy=accuracy(net, DataLoader(test, 16), device))  # lockstep
    if not several or dist.get_rank() == 0:
        torch.save(net.state_dict(), os.path.join(run.folder, "weights.pt"))
        print(f"accuracy {accuracy(net, DataLoader(test, 16), device):.4f}")
    if several:
        dist.destroy_process_group()


main()
