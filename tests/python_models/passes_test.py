#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stages of a backward pass that python/lockstep_host/passes.py cuts, run one after the other as C++ runs them: the gradients are bit
for bit those of the whole pass, and come bit by bit. Needs PyTorch, and no compiler."""
import operator
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "tests/support")]
try:
    import torch
except ImportError:
    import peers
    if not peers.PYTHON or os.environ.get("LOCKSTEP_PASSES_TEST"):
        peers.skip_script()
    os.execve(peers.PYTHON, [peers.PYTHON, __file__], os.environ | {"LOCKSTEP_PASSES_TEST": "1"})

from lockstep_host import passes  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def network(blocks, width=64, classes=5):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(1, width, 3), *(Block(width) for _ in range(blocks)), torch.nn.AdaptiveAvgPool2d(1),
                               torch.nn.Flatten(), torch.nn.Linear(width, classes)).train()


def passes_of(model, batch):
    def compute(own, running, inputs):
        return torch.func.functional_call(model, (own, running), (inputs,))

    found = passes.passes_of(torch, compute, dict(model.named_parameters()), dict(model.named_buffers()), batch, None)
    passes.keep_together(found["backward"][0])
    return found


def made_up(example):
    made = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype)
    if made.is_floating_point():
        return made.uniform_(0.5, 1.5)
    return made.copy_(torch.rand(made.shape) < 0.5) if made.dtype == torch.bool else made.zero_()


def run_in_stages(stages, gradients, values):
    """The gradients by their place, and how many there were after each stage."""
    values, counts, ready = dict(enumerate(values)), [], {}
    for stage in stages:
        made = stage["graph"](*(values[each] for each in stage["takes"]))
        values.update(zip(stage["gives"], made))
        ready = {place: values[number] for number, place in gradients if number in values}
        counts.append(len(ready))
    return ready, counts


class Stages(unittest.TestCase):
    def staged(self, model, batch, most):
        found = passes_of(model, batch)
        graph, examples = found["backward"]
        values = [made_up(each) for each in examples]
        whole = graph(*values)
        stages, gradients = passes.stages_of(torch, graph, most)
        ready, counts = run_in_stages(stages, gradients, values)
        for place, gradient in ready.items():
            self.assertTrue(torch.equal(gradient, whole[place]), f"gradient {place}")
        self.assertEqual(sorted(ready), [place for place, each in enumerate(whole) if each is not None])
        return stages, counts

    def test_give_the_whole_passs_gradients_bit_for_bit_and_each_gives_some(self):
        model, batch = network(blocks=8, width=128), torch.randn(2, 1, 8, 8)
        for most in (1, 2, 4, 7):
            stages, counts = self.staged(model, batch, most)
            self.assertLessEqual(len(stages), most)
            self.assertEqual(counts, sorted(set(counts)), "a stage gives nothing")
            if most > 1:
                self.assertGreater(len(stages), 1)
                # The last stage has what is left, and not nearly all.
                self.assertGreater(counts[-2], sum(1 for _ in model.parameters()) // 4)

    def test_few_gradients_are_one_stage(self):
        stages, _ = self.staged(network(blocks=1, width=8), torch.randn(2, 1, 8, 8), 4)
        self.assertEqual(len(stages), 1)

    def test_frozen_weights_have_no_gradient_and_cost_no_stage(self):
        model = network(blocks=8, width=128)
        for parameter in list(model.parameters())[:14]:
            parameter.requires_grad_(False)
        _, counts = self.staged(model, torch.randn(2, 1, 8, 8), 4)
        self.assertEqual(counts[-1], sum(1 for each in model.parameters() if each.requires_grad))


class Lists(unittest.TestCase):
    def test_of_one_number_are_written_out(self):
        graph = torch.fx.Graph()
        given = graph.placeholder("given")
        pooled = graph.call_function(torch.ops.aten.max_pool2d_with_indices.default, (given, [2], [], [0], [1]))
        summed = graph.call_function(torch.ops.aten.sum.dim_IntList, (graph.call_function(operator.getitem, (pooled, 0)), [1]))
        graph.output(summed)
        passes.expand_short_lists(torch, torch.fx.GraphModule({}, graph))
        self.assertEqual(pooled.args[1:], ([2, 2], [], [0, 0], [1, 1]))
        self.assertEqual(summed.args[1], [1])  # Its schema takes any number of dimensions.


class Linker(unittest.TestCase):
    def test_leaves_out_the_library_that_loads_all_others(self):
        import subprocess

        from torch._inductor.cpp_builder import get_cpp_compiler
        with passes.lean_linker(torch):
            script = pathlib.Path(get_cpp_compiler())
            text = script.read_text().replace("exec ", "echo ", 1)
            said = subprocess.run(["sh", "-c", text, "c++", "-shared", "a b.o", "-ltorch", "-ltorch_cpu"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.split(maxsplit=1)[1].strip(), "-shared a b.o -ltorch_cpu")


if __name__ == "__main__":
    unittest.main()
