# SPDX-License-Identifier: Apache-2.0
"""Finds the largest digit of each text: a GRU over texts of several lengths. Written as people write it, without Lockstep."""
import argparse
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Texts(Dataset):
    def __init__(self, size, seed):
        draw = random.Random(seed)
        self.texts = [[draw.randrange(10) for _ in range(draw.randint(3, 12))] for _ in range(size)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        text = list(self.texts[index])
        random.shuffle(text)  # augmentation
        return torch.tensor(text), max(text)


def collate(samples):
    texts, labels = zip(*samples)
    return pad_sequence(texts, batch_first=True), torch.tensor([len(text) for text in texts]), torch.tensor(labels)


class Reader(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.gru = nn.GRU(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, texts, lengths):
        packed = pack_padded_sequence(self.embed(texts), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.gru(packed)[1][-1])


class Trainer:
    def __init__(self, args):
        self.args, self.rank = args, dist.get_rank()
        torch.manual_seed(args.seed)
        random.seed(args.seed + self.rank)
        train = Texts(args.samples, 1)
        self.train_loader = DataLoader(train, batch_size=args.batch_size, sampler=DistributedSampler(train), collate_fn=collate, num_workers=1)
        self.test_loader = DataLoader(Texts(400, 2), batch_size=100, collate_fn=collate)
        self.model = DDP(Reader())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=args.epochs)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def train_epoch(self, epoch):
        self.model.train()
        for i, (texts, lengths, labels) in enumerate(self.train_loader):
            loss = self.criterion(self.model(texts, lengths), labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            if self.rank == 0 and i % 10 == 0:
                print(f"epoch {epoch} iter {i} loss {loss.item():.4f}", flush=True)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        right = sum((self.model.module(texts, lengths).argmax(1) == labels).sum() for texts, lengths, labels in self.test_loader)
        return right.item() / len(self.test_loader.dataset)

    def fit(self):
        for epoch in range(self.args.epochs):
            self.train_loader.sampler.set_epoch(epoch)
            self.train_epoch(epoch)
            self.scheduler.step()
            accuracy = self.evaluate()
            if self.rank == 0:
                print(f"epoch {epoch} accuracy {accuracy:.4f}", flush=True)
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), os.path.join(self.args.out, "model.pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", default=".")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    Trainer(args).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
