#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Lockstep trained and exported, taken by torchvision and Hugging Face under strict names; and the way back: their own
initial weights, trained on."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import peer

peer.require("torch", "torchvision", "transformers")
import torch
import torchvision
from transformers import BertConfig, BertForMaskedLM

LOCKSTEP = pathlib.Path(os.environ["LOCKSTEP_BIN"]) / "lockstep"
RECIPE = """
[model]
name = "{name}"
{model}
[data]
{data}
global_batch = 2
[trainer]
max_steps = 1
threads = 1
accelerator = "cpu"
[optimizer]
name = "sgd"
lr = {rate}
"""
IMAGES = 'kind = "synthetic"\nsamples = 4\nclasses = 5\nshape = [3, 224, 224]'
TEXT = 'kind = "text"\npath = "text"\nwindow = 16\nsplit = 0.5'
SMALL_BERT = "width = 32\nlayers = 2\nheads = 4\nintermediate = 48\nmax_positions = 24"


def bert(vocabulary):
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      intermediate_size=48, max_position_embeddings=24))


class Peers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text").mkdir()
        (self.folder / "text/a.txt").write_text("In the beginning was the command line. " * 20)

    def trained(self, name, data, rate, model=""):
        """The state_dict that `snapshot export` writes after one step."""
        (self.folder / "r.toml").write_text(RECIPE.format(name=name, model=model, data=data, rate=rate))
        for command in (["train", "r.toml", "--run-dir", "run", "--resume", "none"],
                        ["snapshot", "export", "run", "--to", "out.pt", "--weights"]):
            done = subprocess.run([LOCKSTEP, *command], cwd=self.folder, text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return torch.load(self.folder / "out.pt", weights_only=True)

    def check(self, name, data, peer_of, model=""):
        state = self.trained(name, data, 0.01, model)
        peer = peer_of(state)
        peer.load_state_dict(state, strict=True)
        # At a rate of 0 the one step leaves parameters as the file has them; BatchNorm's statistics move.
        torch.save(peer_of(state).state_dict(), self.folder / "theirs.pt")
        theirs = torch.load(self.folder / "theirs.pt", weights_only=True)
        again = self.trained(name, data, 0.0, f'{model}\nweights = "theirs.pt"')
        self.assertEqual(set(again), set(theirs))
        for key, _ in peer.named_parameters():
            self.assertTrue(torch.equal(again[key], theirs[key]), key)

    def test_torchvision(self):
        for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vit_b_16"):
            with self.subTest(name):
                self.check(name, IMAGES, lambda _, name=name: getattr(torchvision.models, name)(num_classes=5))

    def test_hugging_face(self):
        self.check("bert", TEXT, lambda state: bert(len(state["cls.predictions.bias"])), SMALL_BERT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
