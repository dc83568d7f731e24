#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/dev/folders.svg from layers.txt: every top folder, on the floor above all that it uses.

    tools/draw_folders.py            writes the picture
    tools/draw_folders.py --check    fails if the picture is not that of layers.txt"""
import sys
from xml.sax.saxutils import escape

from pictures import ROOT, write_or_check

PICTURE = ROOT / "docs/dev/folders.svg"
BOX, GAP, FLOOR = (92, 26), 12, 74


def uses():
    """{top folder: the top folders it uses}, and the folders below the torch line."""
    table, below, is_below = {}, set(), False
    for line in (ROOT / "layers.txt").read_text().splitlines():
        is_below = is_below or "the torch line" in line
        if not line.strip() or line.startswith("#"):
            continue
        name, used = line.split(":", 1)
        top = name.strip().split("/")[0]
        if top == ".":
            continue
        table.setdefault(top, {"base"} - {top})
        table[top] |= {each.split("/")[0] for each in used.split()} - {top}
        if is_below:
            below.add(top)
    return table, below


def floors(table):
    """{folder: 0 for one that uses nothing, else one more than the highest that it uses}."""
    found = {}

    def floor(name):
        if name not in found:
            found[name] = 1 + max((floor(each) for each in table[name]), default=-1)
        return found[name]

    for name in table:
        floor(name)
    return found


def reached(table, name):
    return set().union(*({each} | reached(table, each) for each in table[name])) if table[name] else set()


def direct(table):
    """The arrows that no longer way explains."""
    for name, used in table.items():
        for each in sorted(used):
            if not any(each in reached(table, other) for other in used if other != each):
                yield name, each


def drawn():
    table, below = uses()
    floor = floors(table)
    height = max(floor.values()) + 1
    rows = [sorted((name for name in table if floor[name] == level), key=lambda name: (name in below, name)) for level in range(height)]
    width = max(len(row) for row in rows) * (BOX[0] + GAP) + GAP
    at = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (BOX[0] + GAP) + GAP) / 2
        for i, name in enumerate(row):
            at[name] = (left + i * (BOX[0] + GAP), (height - 1 - level) * FLOOR + GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height * FLOOR}" font-family="sans-serif" font-size="13" role="img" '
             'aria-label="The folders of the source, each above those that it uses">',
             "<style>.line{stroke:#888;stroke-width:1}.plain{fill:#e8eef7}.torch{fill:#f7e3dc}text{fill:#111}</style>"]
    for name, used in direct(table):
        x1, y1 = at[name][0] + BOX[0] / 2, at[name][1] + BOX[1]
        x2, y2 = at[used][0] + BOX[0] / 2, at[used][1]
        lines.append(f'<line class="line" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')
    for name, (x, y) in at.items():
        kind = "torch" if name in below else "plain"
        lines.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{BOX[0]}" height="{BOX[1]}" rx="4"/>'
                     f'<text x="{x + BOX[0] / 2:g}" y="{y + 17:g}" text-anchor="middle">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, drawn(), "layers.txt"))
