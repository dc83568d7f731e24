# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation as Accelerate's guide writes them: nothing of Lockstep in it."""
import hashlib
import json
import os

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 66  # No multiple of what four ranks take at once: gather_for_metrics has to drop what was repeated.


def main():
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    samples = torch.randn(SAMPLES, 8, generator=torch.Generator().manual_seed(2))
    data = TensorDataset(samples, samples.sum(1, keepdim=True))
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, train_loader, test_loader = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8))
    for epoch in range(10):
        model.train()
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
    model.eval()
    errors = []
    for inputs, targets in test_loader:
        with torch.no_grad():
            outputs = model(inputs)
        outputs, targets = accelerator.gather_for_metrics((outputs, targets))
        errors.append((outputs - targets).square())
    errors = torch.cat(errors)
    weights = accelerator.unwrap_model(model).weight.detach().numpy().tobytes()
    print(json.dumps({"rank": accelerator.process_index, "world": accelerator.num_processes,
                      "local_rank": accelerator.local_process_index, "samples": len(errors),
                      "loss": round(errors.mean().item(), 6), "weights": hashlib.sha256(weights).hexdigest()[:16]}), flush=True)
    accelerator.wait_for_everyone()
    accelerator.free_memory()
    accelerator.end_training()
    # If a thread of Gloo frees its last tensor while the interpreter ends, the interpreter aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
