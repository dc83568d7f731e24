# SPDX-License-Identifier: Apache-2.0
"""Takes a collate function and a PyTorch DataLoader apart, since the trainer reads single samples and makes the batches itself."""
import sys
from collections.abc import Mapping

from lockstep_host.errors import RECIPE, Refusal
from lockstep_host.samples import laid_sample


def row_of(batch, row, rows):
    """Returns one sample's row of a collated batch. Raises Refusal if a tensor has no first dimension of `rows`."""
    if isinstance(batch, Mapping):
        return {key: row_of(value, row, rows) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return [row_of(each, row, rows) for each in batch]
    shape = list(getattr(batch, "shape", []))
    if shape[:1] != [rows]:
        raise Refusal(RECIPE, f"the collate function makes {f'a {shape}' if shape else type(batch).__name__} of {rows} sample{'s' * (rows > 1)}, "
                      f"want a first dimension of {rows}", "return a tensor with a row for each sample, or a tuple or dict of such")
    return batch[row]


def same(one, other):
    return all(a[:2] == b[:2] and bytes(a[2]) == bytes(b[2]) for a, b in zip(one, other))


def require_rows_by_themselves(collate, samples, seed):
    """Raises Refusal if a sample's row depends on other samples of its batch. The trainer collates every sample by itself."""
    def made(chosen, number):
        seed(0, 0, number)
        batch = collate([samples[each] for each in chosen])
        return [laid_sample(row_of(batch, row, len(chosen))) for row in range(len(chosen))]
    alone = [made([each], -2)[0] for each in (0, 1)]
    is_random = not same(alone[0], made([0], -3)[0])
    for one, row in zip(alone, made([0, 1], -2)):
        shapes = [[list(each[1]) for each in sample] for sample in (one, row)]
        if shapes[0] != shapes[1] or not (is_random or same(one, row)):
            what = f"its shapes are {shapes[0]} by itself and {shapes[1]} in a batch of two" if shapes[0] != shapes[1] else "its values differ"
            raise Refusal(RECIPE, f"the collate function makes another row of a sample by itself than beside another: {what}",
                          "pad to a fixed length, as with padding = 'max_length'; mixing of samples is data.transforms' mixup")


def is_loader(given):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.utils.data.DataLoader)


def parts_of(name, loader):
    """Returns the data set, the collate function and the worker_init_fn of a DataLoader. PyTorch's own collate function is None.

    Raises Refusal if the loader chooses samples by a sampler of its own, or if it has no batch size.
    """
    data = sys.modules["torch"].utils.data
    if not isinstance(loader.dataset, data.IterableDataset):
        chooser = loader.batch_sampler if type(loader.batch_sampler) not in (data.BatchSampler, type(None)) else loader.sampler
        if type(chooser) not in (data.BatchSampler, data.RandomSampler, data.SequentialSampler, data.distributed.DistributedSampler):
            raise Refusal(RECIPE, f"{name} gives a DataLoader with a {type(chooser).__name__}, want a sampler of all samples alike",
                          "the order is the trainer's; return a data set that has the samples as often as they are to be drawn")
    if loader.batch_size is None:
        raise Refusal(RECIPE, f"{name} gives a DataLoader without a batch size, whose data set makes batches itself",
                      "return a data set of samples: data.batch and data.global_batch say how many make a batch")
    own = (data.default_collate, data._utils.collate.default_convert)
    return loader.dataset, None if loader.collate_fn in own else loader.collate_fn, loader.worker_init_fn
