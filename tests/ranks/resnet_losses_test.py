#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 from torchvision's weights: the losses of ten steps on one rank are those of eager PyTorch with its
fused SGD, bit for bit.

LOCKSTEP_BENCH_PYTHON is a Python with PyTorch, torchvision and Pillow.
"""
import json
import subprocess
import sys

import harness

sys.path.append(str(harness.SOURCE / "tests/support"))
import peers  # noqa: E402

STEPS, BATCH, SIZE = 10, 8, 64
PEER = f"""
import json, pathlib, sys
import numpy, torch, torchvision
from PIL import Image
torch.set_num_threads(1)
torch.manual_seed(3)
folder = pathlib.Path(sys.argv[1])
pixels = numpy.random.default_rng(5).integers(0, 256, ({STEPS * BATCH}, {SIZE}, {SIZE}, 3), dtype=numpy.uint8)
# Samples are taken from the classes in turn, by name. The order of the data set is all of the first class, then all of the second.
for place, each in enumerate(pixels):
    path = folder / "images" / ("ant", "bee")[place * 2 // len(pixels)] / f"{{place:04}}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(each).save(path)
net = torchvision.models.resnet18(num_classes=2).train()
torch.save(net.state_dict(), folder / "resnet18.pt")
std, mean = (torch.tensor(each, dtype=torch.float32).double().view(1, 3, 1, 1)
             for each in ((0.229, 0.224, 0.225), (0.485, 0.456, 0.406)))
scale, shift = (1 / (255 * std)).float(), (-mean / std).float()
images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
labels = torch.arange(len(pixels)) * 2 // len(pixels)
# Lockstep calls PyTorch's fused kernel too. The unfused loop rounds the last few elements of a tensor in another way.
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
losses = []
for at in range(0, len(pixels), {BATCH}):
    x = images[at:at + {BATCH}].float().mul_(scale).add_(shift)
    loss = torch.nn.functional.cross_entropy(net(x), labels[at:at + {BATCH}])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({{"version": torch.__version__, "losses": losses}}))
"""


class ResnetLosses(harness.RanksTest):
    def test_ten_steps_from_torchvisions_weights_lose_what_pytorch_loses(self):
        if not peers.PYTHON:
            self.skipTest(peers.REASON)
        done = subprocess.run([peers.PYTHON, "-c", PEER, self.folder], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        peer = json.loads(done.stdout)
        recipe = self.folder / "resnet.toml"
        recipe.write_text(f'[model]\nname = "resnet18"\nweights = "resnet18.pt"\n[data]\nkind = "folder"\npath = "images"\n'
                          f'transforms = ["center_crop({SIZE})", "normalize(imagenet)"]\nshuffle = false\nglobal_batch = {BATCH}\n'
                          '[trainer]\nvalidate_every = 0\n[optimizer]\nname = "sgd"\nlr = 0.01\nmomentum = 0.9\n')
        self.trained("observe.log_every=1", recipe=recipe, ranks=1)
        lines = harness.metrics(self.folder / "run")
        version = next(line["facts"]["torch"] for line in lines if line["event"] == "run_started")
        found = [line["loss"] for line in lines if line["event"] == "step"]
        self.assertEqual(len(found), STEPS)
        if peer["version"].split("+")[0] == version:
            self.assertEqual(found, peer["losses"])
        else:  # Another PyTorch may order sums in another way.
            for one, other in zip(found, peer["losses"]):
                self.assertAlmostEqual(one, other, delta=1e-4)


if __name__ == "__main__":
    harness.main()
