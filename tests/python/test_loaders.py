#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loaders that python/lockstep.py reads: the order of samples, what workers draw, and loaders within other objects."""
import json
import os
import random
import types
import unittest

import pythons

pythons.with_each(__file__)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy  # noqa: E402
import torch  # noqa: E402

from in_a_folder import InAFolder, lockstep  # noqa: E402


class Order(unittest.TestCase):
    def test_is_the_one_of_the_docs(self):
        golden = json.loads((pythons.ROOT / "tests/golden/epoch_order.json").read_text())
        for row in golden["orders"]:
            order = lockstep._EpochOrder(row["size"], row["seed"], row["epoch"])
            self.assertEqual([order[place] for place in row["places"]], row["ids"])
        for row in golden["parts"]:
            for rank in range(row["world"]):
                sampler = lockstep.Sampler(row["size"], global_batch=row["global_batch"], rank=rank, world=row["world"])
                part = sampler.part(row["batch"] * row["global_batch"])
                self.assertEqual((part.start, part.stop), (row["begins"][rank], row["ends"][rank]))

    def test_any_number_of_ranks_takes_the_same_batches(self):
        def batches(world, place=0):
            found = []
            for rank in range(world):
                sampler = lockstep.Sampler(23, global_batch=5, seed=3, rank=rank, world=world)
                sampler.set_place(2, place)
                found.append([ids[:len(sampler.part(place + 5 * i))] for i, ids in enumerate(sampler)])
            return [sum(parts, []) for parts in zip(*found)]
        one = batches(1)
        self.assertEqual(sorted(sum(one, [])), list(range(23)))
        for world in (2, 3, 4, 7):
            self.assertEqual(batches(world), one)
        self.assertEqual(batches(3, place=10), one[2:])

    def test_a_rank_without_samples_has_weight_zero(self):
        sampler = lockstep.Sampler(5, global_batch=4, rank=1, world=2)
        self.assertEqual([len(sampler.part(0)), len(sampler.part(4))], [2, 0])
        self.assertEqual([len(each) for each in sampler], [2, 1], "a stand-in, so that the loader has something to read")

    def test_lengths(self):
        self.assertEqual(len(lockstep.Sampler(10, batch=4)), 3)
        self.assertEqual(len(lockstep.Sampler(10, batch=4, drop_last=True)), 2)
        with self.assertRaisesRegex(lockstep.Error, "batch=None and global_batch=None"):
            lockstep.Sampler(10)


class Drawn(torch.utils.data.Dataset):
    """A sample of chance alone, from each generator that augmentations use."""

    def __len__(self):
        return 24

    def __getitem__(self, number):
        return torch.tensor([number, random.random(), numpy.random.rand(), torch.rand(()).item()], dtype=torch.float64)


class Loaders(InAFolder):
    def test_what_workers_draw_follows_from_the_sample_and_survives_a_resume(self):
        def rows(workers, steps, folder, is_persistent=False):
            data = Drawn()
            loader = torch.utils.data.DataLoader(data, batch_sampler=lockstep.Sampler(data, batch=4, seed=3), num_workers=workers,
                                                 persistent_workers=is_persistent)
            run = lockstep.start(folder=self.folder / folder, model=torch.nn.Linear(2, 3), every_steps=1, on_stop="return")
            found = []
            for _ in run.epochs(2):
                for batch in run.steps(loader):
                    found.append(batch)
                    if len(found) == steps:
                        run.finish()
                        return torch.cat(found)
            self.assertIs(loader.dataset, data)
            return torch.cat(found)

        whole = rows(1, 12, "whole")
        self.assertEqual(len({tuple(row) for row in whole.tolist()}), 48, "chance follows from the epoch too")
        self.assertTrue(torch.equal(rows(3, 12, "three"), whole))
        first = rows(2, 3, "parts")
        # When the run ended, the third batch was not trained on yet, so it comes again.
        self.assertTrue(torch.equal(torch.cat([first[:8], rows(3, 12, "parts")]), whole))
        self.assertTrue(torch.equal(rows(3, 12, "persistent", True), whole))
        first = rows(2, 8, "persistent parts", True)
        self.assertTrue(torch.equal(torch.cat([first[:28], rows(2, 12, "persistent parts", True)]), whole))

    def test_loaders_that_hide_a_sampler(self):
        data = Drawn()
        sampler = lockstep.Sampler(data, batch=4)
        run = lockstep.start(folder=self.folder, model=torch.nn.Linear(2, 3))

        def refused(loader, *words):
            with self.assertRaises(lockstep.Error) as caught:
                next(run.steps(loader))
            for word in words:
                self.assertIn(word, str(caught.exception))
        refused(torch.utils.data.DataLoader(data, 4, sampler=sampler), "for a sampler of single samples", "batch_sampler=sampler")
        split = torch.utils.data.BatchSampler(sampler, 2, False)
        split.batch_sampler = split.__dict__.pop("sampler")  # As accelerate's BatchSamplerShard has it.
        refused(torch.utils.data.DataLoader(data, batch_sampler=split), "split over ranks once more, by BatchSampler")
        wrapped = types.SimpleNamespace(iterable=torch.utils.data.DataLoader(data, batch_sampler=sampler))
        refused(wrapped, "steps() got a SimpleNamespace around the loader", "tqdm(run.steps(loader))")
        copied = types.SimpleNamespace(_dataloader=wrapped.iterable, **vars(wrapped.iterable))  # As Fabric's is.
        refused(copied, "steps() got a SimpleNamespace around the loader", "setup_dataloaders()")

    def test_a_wrapper_around_a_loader(self):
        class Bar:  # As tqdm is.
            def __init__(self, iterable):
                self.iterable = iterable

            def __iter__(self):
                yield from self.iterable

        data = Drawn()
        sampler = torch.utils.data.DistributedSampler(data, num_replicas=1, rank=0)
        loader = torch.utils.data.DataLoader(data, 4, sampler=sampler, num_workers=1)
        run = lockstep.start(folder=self.folder, model=torch.nn.Linear(2, 3))
        order = [[batch[:, 0].tolist() for batch in run.steps(Bar(loader))] for _ in run.epochs(2)]
        self.assertNotEqual(order[0], order[1], "each epoch has its own order")
        self.assertIsInstance(loader.worker_init_fn, lockstep._WorkerStart, "the signal that stops the run does not end its workers")


if __name__ == "__main__":
    unittest.main(verbosity=2)
