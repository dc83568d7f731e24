#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws passages of comments and docs at random, for a reader who has not seen the code (docs/dev/read-by-strangers.md).

    tools/draw_passages.py COMMIT [--count N] [--seed N]

A passage is a paragraph of a page, or a run of comment lines, of 12 to 90 words. Each has the same chance. Prints one JSON
object a line: number, file, text."""
import argparse
import json
import pathlib
import random
import re
import subprocess

from check_words import prose

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = (".h", ".cc", ".cu", ".py", ".sh")


def stored(*words):
    return subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True, check=True).stdout


def comment_runs(name, text):
    """Lines of comments that stand alone and follow each other, as one text."""
    mark = r"///?" if name.endswith((".h", ".cc", ".cu")) else "#"
    current = []
    for line in text.splitlines() + [""]:
        found = re.match(rf"\s*{mark}(?!!)\s?(.*)", line)
        # An example's code follows an empty line. Below a label such as "Throws:" the text goes on in its column.
        if found and found[1].startswith("    ") and not current:
            continue
        if found and found[1].strip():
            current.append(found[1].strip())
        elif current:
            yield " ".join(current)
            current = []


def passages(commit):
    for name in stored("ls-tree", "-r", "--name-only", commit).splitlines():
        if name.endswith(".md"):
            yield from ((name, each) for each in prose(stored("show", f"{commit}:{name}")))
        elif name.endswith(SOURCES):
            yield from ((name, each) for each in comment_runs(name, stored("show", f"{commit}:{name}")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    drawn = [(name, text) for name, text in passages(options.commit)
             if 12 <= len(text.split()) <= 90 and not text.startswith("SPDX")]
    for number, (name, text) in enumerate(random.Random(options.seed).sample(drawn, options.count), 1):
        print(json.dumps({"number": number, "file": name, "text": text}, ensure_ascii=False))


if __name__ == "__main__":
    main()
