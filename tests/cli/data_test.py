#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep data convert`, `verify` and `info` as a person types them, on sets of every kind, whole and damaged."""
import filecmp
import gzip
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ranks"))
import harness  # noqa: E402

PHOTOGRAPHS = harness.SOURCE / "tests/golden/images"
JPEGS = sorted(PHOTOGRAPHS.glob("*.jpg"))
PEER = os.environ.get("LOCKSTEP_PEER_PYTHON")
MIB = 1 << 20

READ_BY_H5PY = """
import h5py, hashlib, json, sys
found = {}
with h5py.File(sys.argv[1]) as file:
    classes = file["classes"].asstr()[:]
    for part in ("train", "val"):
        group = file[part]
        for i, (offset, length) in enumerate(group["index"][:]):
            name = part + "/" + group["names"].asstr()[i]
            assert name.split("/")[1] == classes[group["labels"][i]]
            found[name] = hashlib.sha256(group["images"][offset : offset + length].tobytes()).hexdigest()
print(json.dumps(found))
"""


def idx(shape, content):
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + content


class Data(harness.RanksTest):
    def data(self, *arguments, code=0):
        result = self.start("data", *arguments).finish()
        if "HDF5 cannot be used" in result.err:
            self.skipTest("this build is without HDF5")
        self.assertEqual(result.code, code, result.err + result.out)
        return result

    def make_folder(self, name="set"):
        """A small set of real JPEGs, two classes, with a file that is no image."""
        root = self.folder / name
        for place, (split, label) in enumerate([("train", "ants"), ("train", "bees"), ("val", "bees"), ("train", "ants")]):
            (root / split / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(JPEGS[place % len(JPEGS)], root / split / label / f"{place}.jpg")
        (root / "train/ants/none.jpg").write_bytes(b"GIF89a, and more")
        return root

    def bench(self, *arguments, code=0):
        result = self.start("bench", "loader", *arguments).finish()
        self.assertEqual(result.code, code, result.err + result.out)
        return result

    def test_the_loader_is_measured_for_folders_and_their_hdf5_file_side_by_side(self):
        folder, packed = self.make_folder(), self.folder / "set.h5"
        self.data("convert", folder, packed)
        asked = ["--workers", "0,2", "--epochs", "1", "--batch", "2", "--transform", "random_resized_crop(32)"]
        found = json.loads(self.bench(folder, packed, *asked, "--json").out.splitlines()[-1])
        rates = found["rates"]
        self.assertEqual([(each["path"], each["kind"], each["workers"], each["samples"]) for each in rates],
                         [(str(folder), "folder", 0, 3), (str(folder), "folder", 2, 3), (str(packed), "hdf5", 0, 3), (str(packed), "hdf5", 2, 3)])
        for each in rates:
            # Three channels of a byte, and a label of eight bytes.
            self.assertAlmostEqual(each["megabytes_per_second"] / each["samples_per_second"], (3 * 32 * 32 + 8) * 1e-6)
        table = self.bench(folder, packed, *asked).out.splitlines()
        self.assertEqual([line.split()[:3] for line in table[1:]],
                         [[str(folder), "folder", "0"], [str(folder), "folder", "2"], [str(packed), "hdf5", "0"], [str(packed), "hdf5", "2"]])
        self.bench("mnist" + "x", code=2)
        self.bench(folder, "--epochs", "0", code=2)
        self.assertIn("workers", self.bench(folder, "--workers", "-7", code=2).err)

    def make_large_folder(self):
        """Files that begin as JPEGs do, too many bytes to be written at once."""
        root = self.folder / "large"
        for label in ("a", "b"):
            (root / "train" / label).mkdir(parents=True)
            for number in range(64):
                (root / "train" / label / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + os.urandom(MIB))
        return root

    def test_a_folder_is_described(self):
        found = self.data("info", self.make_folder(), "--json").object
        self.assertEqual((found["kind"], found["classes"], found["class_names"]), ("folder", 2, ["ants", "bees"]))
        train, validation = found["parts"]
        self.assertEqual((train["split"], train["samples"], train["class_counts"]), ("train", 3, [2, 1]))
        self.assertEqual((validation["split"], validation["samples"], validation["class_counts"]), ("validation", 1, [0, 1]))
        self.assertIn("ants/none.jpg", train["problems"][0])
        self.assertIn("2 classes: ants, bees", self.data("info", self.folder / "set").out)

    def test_a_recipe_is_described_and_verified(self):
        found = self.data("info", "digits", "--json").object
        self.assertEqual((found["kind"], found["classes"]), ("idx", 10))
        self.assertEqual(found["parts"][0]["fields"][0]["dtype"], "U8")
        self.assertEqual(sum(found["parts"][0]["class_counts"]), found["parts"][0]["samples"])
        verified = self.data("verify", harness.DIGITS, "--json").object
        self.assertEqual([part["bad"] for part in verified["parts"]], [[] for _ in verified["parts"]])

    def test_made_up_data_and_odd_paths_are_refused(self):
        self.assertIn("are generated", self.data("info", "digits", "--set", "data.kind=synthetic", code=3).err)
        self.assertIn("is not there", self.data("info", "no/such/folder", code=2).err)
        (self.folder / "empty").mkdir()
        self.assertIn("--kind", self.data("info", self.folder / "empty", code=2).err)
        self.assertIn("--threads is -1", self.data("verify", "digits", "--threads=-1", code=2).err)

    def test_bad_images_are_named(self):
        root = self.make_folder()
        self.assertEqual(self.data("verify", root, "--json").object["parts"][0]["left_out"], ["ants/none.jpg"])
        whole = JPEGS[0].read_bytes()
        (root / "train/bees/cut.jpg").write_bytes(whole[: len(whole) // 2])
        (root / "val/bees/lying.png").write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 60000, 60000, 8, 2, 0, 0, 0))
        result = self.data("verify", root, "--json", code=5)
        train, validation = result.object["parts"]
        self.assertEqual([bad["name"] for bad in train["bad"]], [str(root / "train/bees/cut.jpg")])
        self.assertEqual([bad["name"] for bad in validation["bad"]], [str(root / "val/bees/lying.png")])
        self.assertIn("2 samples are bad, the first is " + str(root / "train/bees/cut.jpg"), result.err)

    def test_an_image_that_the_system_refuses_to_look_at_is_named(self):
        root = self.make_folder()
        (root / "train/ants/loop.jpg").symlink_to("loop.jpg")
        for command in "info", "verify":
            result = self.data(command, root, code=6)
            self.assertIn("train/ants/loop.jpg' failed: Too many levels of symbolic links", result.err)

    def test_a_class_that_training_lacks_and_an_empty_class_are_bad(self):
        root = self.make_folder()
        (root / "val/wasps").mkdir()
        shutil.copy(JPEGS[0], root / "val/wasps")
        self.assertIn("which training lacks", self.data("verify", root, code=5).err)
        (root / "train/wasps").mkdir()
        self.assertIn("no JPEG or PNG image in it", self.data("verify", root, code=5).err)

    def test_damaged_files_of_the_other_kinds_are_named(self):
        sets = self.folder / "idx"
        sets.mkdir()
        images, labels = sets / "train-images-idx3-ubyte.gz", sets / "train-labels-idx1-ubyte"
        images.write_bytes(gzip.compress(idx((3, 2, 2), bytes(12))))
        labels.write_bytes(idx((3,), bytes([0, 1, 2])))
        self.assertEqual(self.data("verify", sets, "--json").object["parts"][0]["samples"], 3)
        images.write_bytes(images.read_bytes()[:-6])
        self.assertIn(str(images), self.data("verify", sets, code=5).err)
        table = self.folder / "table.csv"
        table.write_text("a,b,kind\n1,2,x\n3,4,y\n")
        self.assertEqual(self.data("info", table, "--json").object["class_names"], ["x", "y"])
        table.write_text("a,b,kind\n1,2,x\n3,four,y\n")
        self.assertIn("line 3: column 'b' is 'four'", self.data("verify", table, code=5).err)
        text = self.folder / "book.txt"
        text.write_bytes(b"word " * 100)
        self.assertEqual(self.data("verify", text, "--json").object["parts"][0]["samples"], 3)
        cifar = self.folder / "cifar"
        cifar.mkdir()
        (cifar / "data_batch_1.bin").write_bytes(bytes(3073 + 5))
        self.assertIn("data_batch_1.bin", self.data("verify", cifar, code=5).err)

    def convert(self, root, *options, code=0):
        return self.data("convert", root, self.folder / "set.h5", *options, code=code)

    def test_a_converted_folder_holds_the_same_bytes_and_samples(self):
        root = self.make_folder()
        self.assertIn("none.jpg", self.convert(root, "--strict", code=5).err)
        converted = self.convert(root, "--json").object
        self.assertEqual((converted["images"], converted["images_kept"], converted["classes"]), (4, 0, ["ants", "bees"]))
        self.assertEqual(converted["parts"][0]["left_out"], ["ants/none.jpg"])
        info = self.data("info", self.folder / "set.h5", "--json").object
        self.assertEqual((info["kind"], info["class_names"]), ("hdf5", ["ants", "bees"]))
        self.assertEqual(self.data("verify", self.folder / "set.h5", "--json").object["parts"][0]["samples"], 3)
        self.assertIn("exists already", self.convert(root, code=2).err)

    @unittest.skipUnless(PEER, "LOCKSTEP_PEER_PYTHON names no Python with h5py")
    def test_h5py_reads_a_converted_folder(self):
        root = self.make_folder()
        self.convert(root)
        found = subprocess.run([PEER, "-c", READ_BY_H5PY, self.folder / "set.h5"], capture_output=True, text=True, check=True)
        wanted = {name: subprocess.run(["sha256sum", root / name], capture_output=True, text=True, check=True).stdout[:64]
                  for name in harness.contents(root) if not name.endswith("none.jpg")}
        self.assertEqual(harness.json.loads(found.stdout), wanted)

    def test_damage_in_a_converted_file_is_found(self):
        self.convert(self.make_folder())
        path = self.folder / "set.h5"
        content = bytearray(path.read_bytes())
        # Damages the comment or the last scan of a JPEG. The image would still decode, to other pixels.
        image = (self.folder / "set/val/bees/2.jpg").read_bytes()
        content[content.find(image) + len(image) // 2] ^= 1
        path.write_bytes(content)
        result = self.data("verify", path, "--json", code=5)
        self.assertEqual([len(part["bad"]) for part in result.object["parts"]], [0, 1])
        self.assertIn("XXH3-64", result.object["parts"][1]["bad"][0]["fact"])
        path.write_bytes(content[: len(content) // 3])
        self.assertIn(str(path), self.data("verify", path, code=5).err)

    def test_a_killed_conversion_goes_on_where_it_was(self):
        root = self.make_large_folder()
        self.convert(self.make_folder())
        (self.folder / "set.h5").unlink()
        part = self.folder / "large.h5.part"
        command = self.start("data", "convert", root, self.folder / "large.h5")
        command.wait_until(lambda: part.exists() and part.stat().st_blocks * 512 > 16 * MIB, "16 MiB had been written")
        command.kill_all()
        self.assertTrue(part.exists(), "it ended before it was killed")
        resumed = self.data("convert", root, self.folder / "large.h5", "--json").object
        self.assertGreaterEqual(resumed["images_kept"], 8)
        self.assertEqual(resumed["images"], 128)
        self.data("convert", root, self.folder / "again.h5")
        self.assertTrue(filecmp.cmp(self.folder / "large.h5", self.folder / "again.h5", shallow=False))


if __name__ == "__main__":
    unittest.main()
