# SPDX-License-Identifier: Apache-2.0
"""A script with transformers.Trainer and one callback more: hugging_face_train.py RUN [signal_at=STEP]."""
import os
import pathlib
import signal
import sys

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import lockstep  # noqa: E402

FOLDER = sys.argv[1]
AT = {key: int(value) for key, _, value in (word.partition("=") for word in sys.argv[2:])}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return {"x": torch.tensor([i / 24.0, 1.0]), "labels": torch.tensor([i % 5 / 5.0])}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
        self.steps = 0

    def forward(self, x, labels):
        if self.training:
            self.steps += 1
            if self.steps == AT.get("signal_at"):
                os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}


def main():
    torch.set_num_threads(1)
    transformers.set_seed(3)
    args = transformers.TrainingArguments(FOLDER, num_train_epochs=3, per_device_train_batch_size=4, save_steps=4, logging_steps=2, report_to=[],
                                          eval_strategy="epoch", use_cpu=True, disable_tqdm=True, save_safetensors=False)
    callback = lockstep.HuggingFace()
    trainer = transformers.Trainer(Net(), args, train_dataset=Data(), eval_dataset=Data(), callbacks=[callback])
    trainer.train(resume_from_checkpoint=callback.latest(args.output_dir))
    trainer.evaluate(Data())  # As scripts do; the run is over then.
    torch.save(trainer.model.state_dict(), os.path.join(FOLDER, "weights.pt"))


main()
