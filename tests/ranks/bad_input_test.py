#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad recipes, data, ranks and resumes: each ends with its exit code, the fact and the way out, and what a run folder held
before stays as it was."""
import gzip
import pathlib
import random
import shutil
import struct
import tempfile

import harness

USAGE, RECIPE, ENVIRONMENT, DATA, IO, PEER = 2, 3, 4, 5, 6, 7
TRAIN, VALIDATION, SIDE, CLASSES = 40, 12, 4, 3

RECIPE_TEXT = """
[model]
name = "mlp"
hidden = [8]
[data]
kind = "idx"
path = "data"
global_batch = 10
[trainer]
max_epochs = 2
seed = 1
[optimizer]
name = "adam"
lr = 0.01
"""


def idx(dims, values):
    return struct.pack(f">BBBB{len(dims)}I", 0, 0, 8, len(dims), *dims) + bytes(values)


class SmallDataTest(harness.RanksTest):
    """A small set in IDX files, a recipe for it, and a run folder with two epochs of it that must stay as it is."""

    @classmethod
    def setUpClass(cls):
        cls.template = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.template)
        data = cls.template / "data"
        data.mkdir()
        draw = random.Random(3)
        for name, count in (("train", TRAIN), ("t10k", VALIDATION)):
            pixels = [draw.randrange(256) for _ in range(count * SIDE * SIDE)]
            (data / f"{name}-images-idx3-ubyte").write_bytes(idx((count, SIDE, SIDE), pixels))
            (data / f"{name}-labels-idx1-ubyte").write_bytes(idx((count,), [i % CLASSES for i in range(count)]))
        (cls.template / "small.toml").write_text(RECIPE_TEXT)
        command = harness.Command([harness.BIN / "lockstep", "train", cls.template / "small.toml", "--devices", "2",
                                   "--run-dir", cls.template / "run"], cls.template)
        result = command.finish()
        command.close()
        if result.code != 0:
            raise AssertionError(result.err)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.template, self.folder, symlinks=True, dirs_exist_ok=True)
        self.data = self.folder / "data"
        self.recipe = self.folder / "small.toml"
        self.before = self.kept()

    def kept(self):
        """All that a later start has no business to change; logs may grow."""
        return harness.contents(self.folder / "run", leave_out=("logs", "run.lock"))

    def check(self, code, *words, settings=(), **keywords):
        """Asks for more epochs of the run that is there, with a bad input: told so, and the run left alone."""
        keywords.setdefault("recipe", self.recipe)
        self.assert_failed(self.train("trainer.max_epochs=4", *settings, **keywords), code, *words)
        self.assert_untouched()

    def assert_untouched(self):
        after = self.kept()
        self.assertEqual(sorted(after), sorted(self.before), "files came or went")
        self.assertEqual([name for name in after if after[name] != self.before[name]], [], "these files were written over")


class BadRecipes(SmallDataTest):
    def test_an_unknown_key_is_answered_with_the_nearest_known_one(self):
        self.check(RECIPE, "trainer.max_epoch", "trainer.max_epochs", settings=("trainer.max_epoch=3",))

    def test_an_unknown_key_in_the_file_is_named_with_its_place(self):
        bad = self.folder / "bad.toml"
        bad.write_text(RECIPE_TEXT.replace("lr = 0.01", "learning_rate = 0.01"))
        self.check(RECIPE, "optimizer.learning_rate", "bad.toml", recipe=bad)

    def test_a_value_of_the_wrong_type_is_quoted_with_the_wanted_one(self):
        self.check(RECIPE, "trainer.seed", "lots", "a whole number", settings=("trainer.seed=lots",))

    def test_toml_that_cannot_be_read_is_named_with_its_line(self):
        bad = self.folder / "bad.toml"
        bad.write_text(RECIPE_TEXT + "[observe\n")
        self.check(RECIPE, "bad.toml:15", recipe=bad)

    def test_a_recipe_that_is_not_there_is_named(self):
        self.check(IO, "absent.toml", recipe=self.folder / "absent.toml")

    def test_weights_that_are_not_there_are_named(self):
        self.check(IO, "absent.safetensors", settings=("model.weights=absent.safetensors",))

    def test_a_path_that_the_system_refuses_to_look_at_is_named(self):
        # A folder of somebody else's is refused in the same way, but not to root.
        (self.folder / "loop").symlink_to("loop")
        for name in "plugin:loop/net.so", "script:loop/net.pt":
            with self.subTest(name=name):
                self.check(IO, "loop/net", "Too many levels of symbolic links", settings=(f"model.name={name}",))
        self.check(IO, "loop/run", options=("--resume", self.folder / "loop/run"))

    def test_a_batch_larger_than_the_data_is_named_with_both_numbers(self):
        self.check(RECIPE, "data.global_batch is 41", f"{TRAIN} samples", settings=("data.global_batch=41",))

    def test_a_normalisation_of_other_channels_is_named_with_both_numbers(self):
        self.check(RECIPE, "a normalize of 3 channels, and the images have 1", settings=("data.transforms=['normalize(imagenet)']",))

    def test_no_device_is_no_number_of_devices(self):
        for flag in ("0", "-2", "two"):
            with self.subTest(devices=flag):
                self.check(USAGE, "--devices", flag, ranks=None, options=("--devices", flag))

    def test_no_device_in_the_recipe_is_a_bad_recipe(self):
        self.check(RECIPE, "trainer.devices", "0", ranks=None, settings=("trainer.devices=0",))

    def test_an_unknown_flag_is_wrong_usage(self):
        self.check(USAGE, "--device-count", options=("--device-count", "2"))


    def test_a_bad_recipe_makes_no_folder(self):
        result = self.train("trainer.max_epoch=3", recipe=self.recipe, run="fresh")
        self.assert_failed(result, RECIPE)
        self.assertFalse((self.folder / "fresh").exists())


class BadData(SmallDataTest):
    def spoil(self, name, change):
        path = self.data / name
        path.write_bytes(change(path.read_bytes()))
        return path

    def check_spoilt(self, name, change, *words):
        self.spoil(name, change)
        self.check(DATA, name, *words)

    def test_a_wrong_magic_number_is_quoted(self):
        self.check_spoilt("train-images-idx3-ubyte", lambda raw: b"\x12\x34" + raw[2:], "0x12 0x34", "0x00 0x00")

    def test_images_that_are_cut_short_are_told_with_both_sizes(self):
        self.check_spoilt("train-images-idx3-ubyte", lambda raw: raw[:-7], "633 bytes", "640")

    def test_a_gzip_file_that_is_cut_short_is_told(self):
        path = self.data / "train-images-idx3-ubyte"
        packed = gzip.compress(path.read_bytes())
        path.unlink()
        (self.data / "train-images-idx3-ubyte.gz").write_bytes(packed[:len(packed) // 2])
        self.check(DATA, "train-images-idx3-ubyte.gz")

    def test_a_header_that_is_cut_short_is_told(self):
        self.check_spoilt("train-labels-idx1-ubyte", lambda raw: raw[:5])

    def test_a_label_out_of_range_is_told_with_its_value(self):
        self.check_spoilt("t10k-labels-idx1-ubyte", lambda raw: raw[:-1] + b"\x07", "7")

    def test_fewer_labels_than_images_are_told_with_both_numbers(self):
        self.check_spoilt("train-labels-idx1-ubyte", lambda raw: idx((TRAIN - 1,), raw[8:-1]), str(TRAIN), str(TRAIN - 1))

    def test_an_empty_data_set_is_told(self):
        self.spoil("train-images-idx3-ubyte", lambda raw: idx((0, SIDE, SIDE), b""))
        self.spoil("train-labels-idx1-ubyte", lambda raw: idx((0,), b""))
        self.check(DATA, "train-images-idx3-ubyte")

    def test_a_folder_that_is_not_there_is_named(self):
        self.check(DATA, "absent", settings=(f"data.path={self.folder / 'absent'}",))

    def test_a_folder_without_the_files_says_which_it_wants(self):
        (self.folder / "empty").mkdir()
        self.check(DATA, "train-images-idx3-ubyte", settings=(f"data.path={self.folder / 'empty'}",))


class BadRanks(SmallDataTest):
    def start_rank(self, rank, port, *settings, world=2, run="run"):
        return self.start_train(*settings, recipe=self.recipe, ranks=None, run=run,
                                env=harness.variables_of_rank(rank, port, world, LOCKSTEP_MEET_TIMEOUT=2))

    def test_ranks_started_by_hand_train(self):
        port = harness.free_port()
        both = [self.start_rank(rank, port) for rank in (0, 1)]
        first, second = (command.finish() for command in both)
        self.assertEqual((first.code, second.code), (0, 0), first.err + second.err)
        self.assertEqual((first.object["world"], first.object["steps"], second.out), (2, 8, ""))

    def test_ranks_that_disagree_on_the_recipe_name_the_line(self):
        port = harness.free_port()
        both = [self.start_rank(rank, port, "trainer.max_epochs=4", f"optimizer.lr=0.{rank + 3}") for rank in (0, 1)]
        for command in both:
            self.assert_failed(command.finish(), RECIPE, "differs between ranks", "lr = 0.3", "lr = 0.4")
        self.assert_untouched()

    def test_a_peer_that_never_arrives_is_named_with_the_time_waited(self):
        result = self.start_rank(0, harness.free_port(), "trainer.max_epochs=4").finish(30)
        self.assert_failed(result, PEER, "rank 1 did not arrive within 2 s", "LOCKSTEP_MEET_TIMEOUT")
        self.assert_untouched()

    def test_the_recipe_says_how_long_ranks_wait_for_one_that_never_arrives(self):
        settings = ("trainer.max_epochs=4", "trainer.join_timeout=1.5")
        command = self.start_train(*settings, recipe=self.recipe, ranks=None, env=harness.variables_of_rank(0, harness.free_port()))
        self.assert_failed(command.finish(30), PEER, "rank 1 did not arrive within 2 s", "trainer.join_timeout")
        self.assert_untouched()
        self.trained(*settings, recipe=self.recipe)
        for name in ("eval", "predict"):
            command = self.start(name, self.folder / "run", env=harness.variables_of_rank(0, harness.free_port()))
            self.assert_failed(command.finish(30), PEER, "rank 1 did not arrive within 2 s", "trainer.join_timeout")

    def test_a_rank_zero_that_never_arrives_is_named_with_its_address(self):
        port = harness.free_port()
        result = self.start_rank(1, port, "trainer.max_epochs=4").finish(30)
        self.assert_failed(result, PEER, "rank 0 did not arrive", f"127.0.0.1:{port}", "2 s")
        self.assert_untouched()


class BadResumes(SmallDataTest):
    def flip_a_bit(self, step, name="model.safetensors"):
        path = self.folder / "run/snapshots" / harness.snapshot_name(step) / name
        raw = bytearray(path.read_bytes())
        raw[len(raw) * 3 // 4] ^= 4
        path.write_bytes(raw)

    def test_a_snapshot_with_one_flipped_bit_is_skipped_aloud_for_the_one_before_it(self):
        whole = self.trained("trainer.max_epochs=4", recipe=self.recipe, run="whole")
        for name in ("model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"):
            with self.subTest(file=name):
                shutil.rmtree(self.folder / "run")
                shutil.copytree(self.template / "run", self.folder / "run", symlinks=True)
                self.flip_a_bit(8, name)
                result = self.train("trainer.max_epochs=4", recipe=self.recipe)
                self.assertEqual(result.code, 0, result.err)
                self.assertRegex(result.err, rf"skipped .*{harness.snapshot_name(8)}.*{name}")
                self.assertTrue(result.object["resumed_from"].endswith(harness.snapshot_name(4)))
                for key in ("steps", "weights_digest", "sample_digest", "train_loss"):
                    self.assertEqual(result.object[key], whole[key], key)

    def test_a_run_without_a_whole_snapshot_is_left_alone(self):
        for step in (4, 8):
            self.flip_a_bit(step)
        self.before = self.kept()
        self.check(DATA, "no snapshot", "--resume none")

    def test_a_changed_model_names_the_tensor_that_does_not_fit(self):
        self.check(DATA, "fc1.weight", "[8, 16]", "[9, 16]", settings=("model.hidden=[9]",))

    def test_a_changed_optimizer_is_an_error(self):
        self.check(DATA, "exp_avg", "momentum_buffer", settings=("optimizer.name=sgd",))

    def test_a_changed_precision_is_an_error(self):
        self.check(DATA, "F32", "F64", settings=("trainer.precision=fp64",))

    def test_another_seed_would_change_the_order_and_is_an_error(self):
        self.check(RECIPE, "seed", "1", "2", settings=("trainer.seed=2",))

    def test_a_data_set_of_another_size_is_an_error(self):
        for name, dims, size in (("images-idx3", (30, SIDE, SIDE), SIDE * SIDE), ("labels-idx1", (30,), 1)):
            path = self.data / f"train-{name}-ubyte"
            path.write_bytes(idx(dims, path.read_bytes()[4 + 4 * len(dims):][:30 * size]))
        self.check(DATA, "40 samples", "30")

    def test_a_snapshot_that_is_not_there_is_named(self):
        self.check(IO, "absent", options=("--resume", self.folder / "absent"))

    def test_a_second_run_in_the_same_folder_is_told_who_holds_it(self):
        first = self.start_train("trainer.max_epochs=400", "snapshot.every_epochs=0", "observe.log_every=1", recipe=self.recipe, run="live")
        first.wait_for_step(self.folder / "live", 5)
        holder = first.ranks()[0]
        second = self.train("trainer.max_epochs=2", recipe=self.recipe, ranks=1, run="live")
        self.assert_failed(second, ENVIRONMENT, "another live run", str(holder))
        # The same holds for a program that uses the library. The fault: it wrote its snapshots among those of the run.
        third = self.start(self.folder / "live", program="05_resume").finish()
        self.assert_failed(third, ENVIRONMENT, "another live run", str(holder))
        ended = first.finish()
        self.assertEqual(ended.code, 0, ended.err[-3000:])
        self.assertEqual(ended.object["steps"], 1600)
        steps = [line["step"] for line in harness.metrics(self.folder / "live") if line["event"] == "step"]
        self.assertEqual(steps, list(range(1, 1601)))


if __name__ == "__main__":
    harness.main()
