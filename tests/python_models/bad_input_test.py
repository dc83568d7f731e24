#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a Python model ends the run with its exit code, the fact and the way out; no run is left under way."""
import os
import shutil
import sys

from python_models import NETS, PYTHON, PythonModelsTest, harness, main


class BadInput(PythonModelsTest):
    def refused(self, model, code, *words, args="", env=None, ranks=1):
        result = self.train(recipe=self.recipe(model, args=args), ranks=ranks, env=env, run=f"run-{len(self.commands)}")
        self.assert_failed(result, code, *words)
        self.assertNotIn("bug in Lockstep", result.err)
        return result

    def test_what_is_not_there_is_told_with_the_nearest_name(self):
        self.refused(f"python:{NETS}:Plane", 3, "has no class or function 'Plane'", "did you mean 'Plain'?")
        self.refused(f"python:{NETS.with_name('net.py')}:Plain", 6, "there is no file", "did you mean 'nets.py'?")
        self.refused("python:torchvision.modells:resnet18", 3, "finds no module 'torchvision.modells'")
        self.refused("python:torchvision.models:resnet19", 3, "has no class or function 'resnet19'", "did you mean 'resnet1")

    def test_a_file_that_cannot_be_imported_shows_the_users_own_lines(self):
        broken = self.folder / "broken.py"
        broken.write_text("import torch\n\n1 / 0\n")
        self.refused(f"python:{broken}:Net", 3, "cannot be built: ZeroDivisionError: division by zero", 'broken.py", line 3')
        broken.write_text("import torch\nclass Net(torch.nn.Module:\n")
        self.refused(f"python:{broken}:Net", 3, "SyntaxError", "broken.py")
        broken.write_text("import no_such_package\n")
        self.refused(f"python:{broken}:Net", 3, "No module named 'no_such_package'", 'broken.py", line 1')

    def test_arguments_that_the_constructor_does_not_take(self):
        self.refused(f"python:{NETS}:Plain", 3, "does not take these [model.args]", "unexpected keyword argument 'widht'",
                     "did you mean 'width'?", args="widht = 3")
        self.refused(f"python:{NETS}:Plain", 3, "cannot be built: ", "nets.py", args="width = -3")

    def test_modules_that_do_not_fit(self):
        self.refused(f"python:{NETS}:Plain", 3, "makes [2, 7] of a batch of [2, 1, 8, 8]", "want [2, 10]", args="num_classes = 7")
        self.refused("python:torchvision.models:resnet18", 3, "ResNet cannot take a batch of [2, 1, 8, 8]")
        self.refused(f"python:{NETS}:Empty", 3, "Empty has no parameter to train")
        self.refused(f"python:{NETS}:a_list", 3, "gives list, want a torch.nn.Module")
        self.refused(f"python:{NETS}:torch", 3, "'torch' in ", "want a class or function")

    def test_an_exception_in_a_step_ends_with_rank_step_and_traceback(self):
        result = self.refused(f"python:{NETS}:Failing", 3, "the model failed in training step 3 of epoch 0",
                              "RuntimeError: call 3 is one too many", "nets.py", "in forward", args="at = 3", ranks=2)
        self.assertRegex(result.err, r"\[rank [01]\] error: the model failed")
        self.refused(f"python:{NETS}:Failing", 3, "the model failed in training step 2 of epoch 0", "RuntimeError: no way back",
                     "nets.py", "backward", args='at = 2\nwhere = "backward"')

    def test_a_loss_that_is_no_number(self):
        recipe = self.recipe("mlp", more=f'[loss]\nname = "python:{NETS}:loss_of_each"\n')
        recipe.write_text(recipe.read_text().replace("[model.args]", ""))
        result = self.train(recipe=recipe, ranks=1)
        self.assert_failed(result, 3, "the model failed in", "loss_of_each() returns a tensor of [50], want one number")
        recipe.write_text(recipe.read_text().replace(":loss_of_each", ":loss_of_eech"))
        self.assert_failed(self.train(recipe=recipe, ranks=1), 3, "no class or function 'loss_of_eech'", "did you mean 'loss_of_each'?")

    def test_another_pytorch_or_none(self):
        fake = self.folder / "fake"
        (fake / "torch").mkdir(parents=True)
        (fake / "torch/__init__.py").write_text('__version__ = "2.1.0+cpu"\n')
        self.refused(f"python:{NETS}:Plain", 4, "is 2.1.0, this trainer was built for", f"lockstep setup --python {PYTHON}",
                     env={"PYTHONPATH": str(fake)})
        (fake / "torch/__init__.py").write_text("raise ImportError('libcudart is not there')\n")
        self.refused(f"python:{NETS}:Plain", 4, "cannot import torch: libcudart is not there", env={"PYTHONPATH": str(fake)})
        self.refused(f"python:{NETS}:Plain", 4, "LOCKSTEP_PYTHON is '/nowhere/python'", env={"LOCKSTEP_PYTHON": "/nowhere/python"})

    def test_the_active_environments_python_hosts_the_trainer(self):
        venv = self.folder / "venv with a blank/bin"
        venv.mkdir(parents=True)
        asked = self.folder / "asked"
        (venv / "python").write_text(f'#!/bin/sh\necho here >> "{asked}"\nexec "{PYTHON}" "$@"\n')
        (venv / "python").chmod(0o755)
        self.trained("trainer.max_steps=2", recipe=self.recipe(f"python:{NETS}:Plain"), ranks=1,
                     env={"LOCKSTEP_PYTHON": "", "VIRTUAL_ENV": str(venv.parent)})
        self.assertEqual(asked.read_text(), "here\n")

    def test_a_snapshot_of_another_model(self):
        self.trained("trainer.max_steps=2", recipe=self.recipe(f"python:{NETS}:Plain", args="width = 32"), ranks=1, run="run")
        for args, words in (("width = 16", ("into.weight", "[32, 64]", "[16, 64]")), ("", ())):
            name = "Plain" if args else "Rich"
            result = self.train("trainer.max_steps=4", recipe=self.recipe(f"python:{NETS}:{name}", args=args), ranks=1, run="run")
            self.assertNotIn(result.code, (0, 1), result.err)
            self.assert_failed(result, result.code, *words)
            self.assertRegex(result.err, "hint: ")

    def test_a_trainer_without_that_part_says_so(self):
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("lockstep", "lockstep-train"):
            os.symlink(harness.BIN / name, programs / name)
            shutil.copy(harness.BIN / name, programs / f"{name}.copy")
            os.replace(programs / f"{name}.copy", programs / name)
        recipe = self.recipe(f"python:{NETS}:Plain")
        self.commands.append(harness.Command([programs / "lockstep", "train", recipe], self.folder, {"LOCKSTEP_PYTHON": PYTHON}))
        self.assert_failed(self.commands[-1].finish(), 4, "there is no folder lockstep_host", "lockstep setup --python")

    def test_what_a_model_prints_is_not_among_the_results(self):
        path = self.folder / "loud.py"
        path.write_text(f"import sys\nsys.path.insert(0, {str(NETS.parent)!r})\nimport nets\nprint('loud and clear')\nNet = nets.Plain\n")
        result = self.train("trainer.max_steps=2", recipe=self.recipe(f"python:{path}:Net"), ranks=1)
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("loud and clear", result.err)
        self.assertEqual(len(result.out.splitlines()), 1)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
