#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/dev/run.svg, a run as data flowing through it, from the walks of docs/dev/architecture.md.

Each numbered step of a walk is a box with the sources that the page names there. Between two boxes stands what goes from one to the other.

    tools/draw_run.py            writes the picture
    tools/draw_run.py --check    fails if the picture is not that of the page"""
import re
import sys
from xml.sax.saxutils import escape

from pictures import ROOT, write_or_check

PAGE = ROOT / "docs/dev/architecture.md"
PICTURE = ROOT / "docs/dev/run.svg"
# What leaves each step.
FLOW = {
    "One batch": {"Read": "a step's batches: tensors and sample ids", "Prepare": "learning rates, raised signals",
                  "Choose the way": "the batches, to compute or to replay", "Forward": "the mean loss of this rank's samples",
                  "Backward": "averaged gradients, and the signals of all ranks", "Update": "new weights, the same on every rank",
                  "Count": "TrainingState: step, place, digest", "Tell": "events; a save if one is due"},
    "One save": {"Settle": "weights that nothing changes now", "Gather": "the TrainingState of all ranks",
                 "Hand over": "SnapshotContent: tensors, partly shared", "Copy": "a private copy; the next update may begin",
                 "Write": "step-N/ with a MANIFEST, synced and renamed", "Tidy": "the snapshots that stay", "Tell": "SnapshotWritten, to listeners"},
}
# Where a step runs, if not on the training's own thread.
ELSEWHERE = {("One batch", "Read"): "loader's threads", ("One save", "Copy"): "save's thread", ("One save", "Write"): "save's thread",
             ("One save", "Tidy"): "save's thread"}
WIDTH, LINE, SPACE, MARGIN, GAP = 400, 16, 30, 16, 60


def walks():
    """{heading: [(title, sources)]} of the page."""
    found = {}
    for heading, body in re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE.read_text(), re.M):
        steps = re.findall(r"^\d+\. \*\*(.+?)\.\*\* ((?:.*\n)(?:   .*\n)*)", body, re.M)
        if steps:
            found[heading] = [(title, list(dict.fromkeys(re.findall(r"`((?:\w+/)+\w+\.(?:cc|h))`", text)))) for title, text in steps]
    return found


def box(heading, title, files, left, top):
    place = ELSEWHERE.get((heading, title))
    height = LINE * (1 + len(files)) + 10
    lines = [f'<rect class="{"other" if place else "own"}" x="{left}" y="{top}" width="{WIDTH}" height="{height}" rx="5"/>',
             f'<text class="title" x="{left + 10}" y="{top + LINE + 2}">{escape(title)}</text>']
    if place:
        lines.append(f'<text class="note" x="{left + WIDTH - 10}" y="{top + LINE + 2}" text-anchor="end">{escape(place)}</text>')
    for i, name in enumerate(files, 1):
        lines.append(f'<text class="file" x="{left + 10}" y="{top + (i + 1) * LINE + 2}">{escape(name)}</text>')
    return lines, height


def column(heading, steps, left):
    lines = [f'<text class="head" x="{left}" y="{MARGIN + 12}">{escape(heading)}</text>']
    top = MARGIN + 26
    for title, files in steps:
        made, height = box(heading, title, files, left, top)
        lines += made
        top += height
        middle = left + 30
        lines += [f'<path class="flow" d="M{middle} {top}v{SPACE - 7}"/><path class="tip" d="M{middle - 5} {top + SPACE - 7}h10l-5 7z"/>',
                  f'<text class="note" x="{middle + 12}" y="{top + SPACE / 2 + 4:g}">{escape(FLOW[heading][title])}</text>']
        top += SPACE
    return lines, top


def drawn():
    found = walks()
    wanted = {heading: list(steps) for heading, steps in FLOW.items()}
    there = {heading: [title for title, _ in steps] for heading, steps in found.items()}
    if there != wanted:
        sys.exit(f"error: {PAGE.relative_to(ROOT)} has the steps {there}, tools/draw_run.py has {wanted}\n  hint: mend FLOW there")
    columns = [column(heading, found[heading], MARGIN + i * (WIDTH + GAP)) for i, heading in enumerate(FLOW)]
    width, height = 2 * MARGIN + len(columns) * WIDTH + (len(columns) - 1) * GAP, max(bottom for _, bottom in columns) + MARGIN
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img" '
            'aria-label="One batch and one save, step by step, with what goes from one step to the next">',
            "<style>.own{fill:#e8eef7}.other{fill:#e6f2e6}.flow{stroke:#888}.tip{fill:#888}text{fill:#111}.title{font-weight:bold}"
            ".head{font-size:16px}.note{font-style:italic;fill:#444}.file{font-family:monospace;font-size:12px}</style>"]
    return "\n".join([*head, *(line for lines, _ in columns for line in lines), "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, drawn(), PAGE.relative_to(ROOT)))
