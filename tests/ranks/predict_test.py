#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trained model on data of which classes, columns or labels differ from those of training: right, or refused.

Regression: `predict --data` took class names, columns' scale and the drawn split from the new data.
"""
import csv
import gzip
import json
import shutil
import struct
import zlib

import harness

TABLE = ('[model]\nname = "mlp"\nhidden = [16]\n[data]\nkind = "csv"\npath = "train.csv"\nsplit = 0.2\nglobal_batch = 20\n'
         '[trainer]\nmax_epochs = 20\n[optimizer]\nname = "adam"\nlr = 0.01\n')
IMAGES = ('[model]\nname = "mlp"\nhidden = [8]\n[data]\nkind = "folder"\npath = "images"\nsplit = 0.25\nglobal_batch = 8\n'
          'transforms = ["resize(4, 4)"]\n[trainer]\nmax_epochs = 12\n[optimizer]\nname = "adam"\nlr = 0.02\n')


def points(count, shift=0.0):
    return [((i * 37 % 101) / 100 + shift, (i * 53 % 97) / 100 + shift) for i in range(count)]


def target(a, b):
    return 3 * a - 2 * b + 1


def kind(a, b):
    return "high" if a > b else "low"


def table(rows, header, *columns):
    return header + "\n" + "".join(",".join(str(each(a, b)) for each in columns) + "\n" for a, b in rows)


def first(a, _):
    return a


def second(_, b):
    return b


def png(path, colour):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    size = 6
    pixels = (b"\0" + bytes(colour * size)) * size
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


def idx(shape, content):
    return struct.pack(f">I{len(shape)}I", 0x800 + len(shape), *shape) + bytes(content)


def rows_of(array):
    """A gzipped IDX file's bytes, without its header."""
    content = gzip.decompress(array.read_bytes())
    return content[4 + 4 * content[3]:]


class Predict(harness.RanksTest):
    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def run_on(self, command, *options, code=0):
        result = self.start(command, self.folder / "run", *options, "--json").finish()
        self.assertEqual(result.code, code, result.err[-3000:])
        return result

    def predicted(self, data, *options):
        out = self.folder / "out.csv"
        self.run_on("predict", "--data", data, "--out", out, *options)
        with out.open(newline="") as file:
            head, *lines = csv.reader(file)
        return head, lines

    def assert_refused(self, data, *words, command="predict"):
        options = ("--data", data) if command == "predict" else ("--set", f"data.path={data}")
        self.assert_failed(self.run_on(command, *options, code=5), 5, *words)

    def assert_numbers(self, data, rows, *options):
        head, lines = self.predicted(data, *options)
        self.assertEqual(head, ["sample", "predicted"])
        self.assertEqual(len(lines), len(rows), f"{data.name}: each row once")
        self.assertEqual([int(name.rsplit(" ", 1)[1]) for name, _ in lines], list(range(2, len(rows) + 2)))
        for (_, guess), (a, b) in zip(lines, rows, strict=True):
            self.assertAlmostEqual(float(guess), target(a, b), delta=0.4, msg=data.name)

    def test_numbers_from_other_tables(self):
        self.write("train.csv", table(points(400), "a,b,y", first, second, target))
        self.trained("data.regression=true", recipe=self.write("table.toml", TABLE))
        part = points(50, shift=0.3)[:30]
        same = self.write("same.csv", table(part, "a,b,y", first, second, target))
        self.assert_numbers(same, part)
        self.assert_numbers(same, part, "--devices", 2)
        self.assert_numbers(self.write("one_row.csv", table(part[:1], "a,b,y", first, second, target)), part[:1])
        self.assert_numbers(self.write("no_label.csv", table(part, "a,b", first, second)), part)
        self.assert_numbers(self.write("turned.csv", table(part, "y,b,a", target, second, first)), part)
        self.assert_numbers(self.write("empty_label.csv", table(part, "a,b,y", first, second, lambda a, b: "")), part)
        self.assert_refused(self.write("more.csv", table(part, "a,c,b,y", first, first, second, target)),
                            "has the column 'c', which training lacks")
        self.assert_refused(self.write("fewer.csv", table(part, "a,y", first, target)), "no column 'b'")
        self.assert_refused(self.write("text.csv", "a,b\nred,1\n"), "column 'a' is 'red', want a number")
        found = self.run_on("eval", "--set", f"data.path={same}").object
        self.assertEqual(found["samples"], 30)
        self.assertLess(found["metrics"]["val_mae"], 0.2)
        self.assert_refused(self.folder / "no_label.csv", "no column 'y'", command="eval")

    def test_classes_from_other_tables(self):
        self.write("train.csv", table(points(400), "a,b,kind", first, second, kind))
        self.trained(recipe=self.write("table.toml", TABLE))
        part = [(a, b) for a, b in points(60) if abs(a - b) > 0.2]
        low = [(a, b) for a, b in part if a < b]
        for name, rows, header, columns in (("both.csv", part, "a,b,kind", (first, second, kind)),
                                            ("one_class.csv", low, "a,b,kind", (first, second, kind)),
                                            ("no_label.csv", part, "a,b", (first, second))):
            head, lines = self.predicted(self.write(name, table(rows, header, *columns)))
            self.assertEqual(head, ["sample", "predicted", "high", "low"], name)
            self.assertEqual([line[1] for line in lines], ["0" if a > b else "1" for a, b in rows], name)
        other = self.write("other.csv", table(part, "a,b,kind", first, second, lambda a, b: "huge"))
        self.assert_refused(other, "column 'kind' is 'huge', a class that training lacks; it has high, low")
        self.assert_refused(other, "a class that training lacks", command="eval")
        found = self.run_on("eval", "--set", f"data.path={self.folder / 'one_class.csv'}").object
        self.assertEqual((found["samples"], found["split"]), (len(low), "all"))
        self.assertGreater(found["metrics"]["val_accuracy"], 0.95)

    def test_other_folders_of_images(self):
        colours = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
        for name, colour in colours.items():
            for i in range(16):
                png(self.folder / "images" / name / f"{i}.png", [each + i % 4 for each in colour])
        self.trained(recipe=self.write("images.toml", IMAGES))
        order = sorted(colours)
        for i, name in enumerate(("red", "blue", "green", "blue")):
            png(self.folder / "plain" / f"{i}.png", colours[name])
        head, lines = self.predicted(self.folder / "plain")
        self.assertEqual(head, ["sample", "predicted", *order])
        self.assertEqual([order[int(line[1])] for line in lines], ["red", "blue", "green", "blue"])
        for name in ("red", "green"):
            png(self.folder / "fewer" / name / "0.png", colours[name])
        head, lines = self.predicted(self.folder / "fewer")
        self.assertEqual(head, ["sample", "predicted", *order])
        self.assertEqual([order[int(line[1])] for line in lines], ["green", "red"])
        found = self.run_on("eval", "--set", f"data.path={self.folder / 'fewer'}").object
        self.assertEqual((found["samples"], found["metrics"]["val_accuracy"]), (2, 1))
        converted = self.folder / "fewer.h5"
        self.assertEqual(self.start("data", "convert", self.folder / "fewer", converted).finish().code, 0)
        for command in (("predict", "--data", converted), ("eval", "--set", f"data.path={converted}")):
            done = self.run_on(*command, "--set", "data.kind=hdf5")
            if command[0] == "predict":
                lines = list(csv.reader(done.out.splitlines()))[1:-1]
                self.assertEqual([order[int(line[1])] for line in lines], ["green", "red"])
            else:
                self.assertEqual(done.object["metrics"]["val_accuracy"], 1)
        png(self.folder / "other/red/0.png", colours["red"])
        png(self.folder / "other/zebra/0.png", colours["red"])
        self.assert_refused(self.folder / "other", "has the class 'zebra', which training lacks")
        self.assert_refused(self.folder / "plain", "no folders in it", command="eval")

    def test_other_idx_files(self):
        run = self.trained("trainer.max_epochs=3", "data.split=0.1")
        digits = harness.SOURCE / "datasets/digits"
        images = rows_of(digits / "t10k-images-idx3-ubyte.gz")
        labels = rows_of(digits / "t10k-labels-idx1-ubyte.gz")
        self.assertGreater(run["val_accuracy"], 0.7)
        few = [i for i, label in enumerate(labels) if label < 5][:50]
        for name, has_labels, shape in (("few", True, (8, 8)), ("unlabelled", False, (8, 8)), ("other_shape", True, (4, 16))):
            folder = self.folder / name
            folder.mkdir()
            pixels = b"".join(images[64 * i:64 * i + 64] for i in few)
            (folder / "t10k-images-idx3-ubyte").write_bytes(idx((len(few), *shape), pixels))
            if has_labels:
                (folder / "t10k-labels-idx1-ubyte").write_bytes(idx((len(few),), [labels[i] for i in few]))
            if name == "other_shape":
                self.assert_refused(folder, "a sample is U8 [1, 4, 16], the model was trained on U8 [1, 8, 8]")
                continue
            head, lines = self.predicted(folder)
            self.assertEqual(head, ["sample", "predicted", *map(str, range(10))])
            right = sum(int(line[1]) == labels[i] for line, i in zip(lines, few, strict=True))
            self.assertGreater(right, 35)

    def test_a_snapshot_without_a_description_asks_the_training_data(self):
        self.write("train.csv", table(points(400), "a,b,y", first, second, target))
        self.trained("data.regression=true", "trainer.max_epochs=2", "snapshot.keep=1", recipe=self.write("table.toml", TABLE))
        snapshot = (self.folder / "run/snapshots/latest").resolve()
        state = json.loads((snapshot / "state.json").read_text())
        self.assertEqual(state["data"]["csv"]["columns"], ["a", "b"])
        new = self.write("new.csv", table(points(10, shift=1), "a,b", first, second))
        with_description = self.predicted(new)
        del state["data"]
        self.rewrite_state(snapshot, json.dumps(state))
        # Without the schema, columns are scaled by all rows of the training table, as in the version that wrote such snapshots. If the new rows' own
        # scale were used, predictions would differ by 1 or more.
        for guess, other in zip(self.predicted(new)[1], with_description[1], strict=True):
            self.assertAlmostEqual(float(guess[1]), float(other[1]), delta=0.2)
        shutil.move(self.folder / "train.csv", self.folder / "away.csv")
        self.assert_refused(new, "does not say what data it was trained on")


if __name__ == "__main__":
    harness.main()
