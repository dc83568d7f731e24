# SPDX-License-Identifier: Apache-2.0
"""A BERT that tells two kinds of sentences apart, with transformers.Trainer: fine_tune.py FILE.tsv [EPOCHS [MODEL]]

Each line of FILE.tsv is a label, a tab and a text. MODEL is a local folder of a pretrained model; without it a small one is trained
from nothing, with bytes as its words. The lines that end with `# lockstep` are all that was added.
"""
import os
import sys

import torch
import transformers

import lockstep  # lockstep

FILE = sys.argv[1]
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
MODEL = sys.argv[3] if len(sys.argv) > 3 else None
LENGTH = 48


class Sentences(torch.utils.data.Dataset):
    def __init__(self, tokenizer):
        with open(FILE, encoding="utf-8") as file:
            self.rows = [line.rstrip("\n").split("\t", 1) for line in file]
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        label, text = self.rows[number]
        if self.tokenizer is None:
            words = list(text.encode())[:LENGTH]
            mask = [1] * len(words) + [0] * (LENGTH - len(words))
            words += [0] * (LENGTH - len(words))
        else:
            found = self.tokenizer(text, padding="max_length", truncation=True, max_length=LENGTH)
            words, mask = found["input_ids"], found["attention_mask"]
        return {"input_ids": torch.tensor(words), "attention_mask": torch.tensor(mask), "labels": torch.tensor(int(label))}


def main():
    transformers.set_seed(42)
    if MODEL:
        tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL, local_files_only=True)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=2, local_files_only=True)
    else:
        tokenizer = None
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=256, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=LENGTH))
    folder = os.environ.get("LOCKSTEP_RUN_DIR", "runs/fine_tune")
    args = transformers.TrainingArguments(folder, num_train_epochs=EPOCHS, per_device_train_batch_size=8, learning_rate=1e-3, save_steps=20,
                                          save_total_limit=3, logging_steps=10, report_to=[], disable_tqdm=True,
                                          use_cpu=not torch.cuda.is_available(), ddp_backend=None if torch.cuda.is_available() else "gloo")
    callback = lockstep.HuggingFace()  # lockstep
    trainer = transformers.Trainer(model, args, train_dataset=Sentences(tokenizer), callbacks=[callback])  # lockstep: the callback
    trainer.train(resume_from_checkpoint=callback.latest(args.output_dir))  # lockstep: was `trainer.train()`
    if trainer.is_world_process_zero():
        torch.save(trainer.model.state_dict(), os.path.join(folder, "weights.pt"))
        print(f"loss {trainer.state.log_history[-1]['train_loss']:.4f}")


main()
