# SPDX-License-Identifier: Apache-2.0
"""The rows of tools/gpu-check, and the page and JSON file that they make.

Every row that the check knows is on the page from the start. So a run that is cut off leaves what it measured, and the page says that
the rest was not measured. A row is `only written` until the programs are built, then `compiled`, and `tried` after it ran on a GPU.
A row that ran on anything else is `rehearsed on CPU`, whatever the result.
"""
import dataclasses
import datetime
import json
import os

import plan

WRITTEN, COMPILED, TRIED, REHEARSED = "only written", "compiled", "tried", "rehearsed on CPU"


@dataclasses.dataclass
class Row:
    key: str
    what: str
    wanted: str = ""
    is_speed: bool = False  # True also if a rehearsal cannot tell for another reason.
    state: str = WRITTEN
    found: str = ""
    by: str = ""  # The commit and the number of cores that it was found with.
    holds: bool | None = None  # True if the result is the wanted one; None if nothing was found or nothing is wanted.
    numbers: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Part:
    """One part of the check: its rows, and the function that fills them."""
    name: str
    title: str
    run: object  # Called with the Check.
    rows: list[Row]
    limit_s: float  # The most seconds that the part may take.


class Results:
    def __init__(self, parts, path, facts, also=None):
        self.parts = parts
        self.path = path
        self.also = also  # A folder that gets copies of the page and the JSON file.
        self.facts = facts
        self.rows = {row.key: row for part in parts for row in part.rows}
        assert len(self.rows) == sum(len(part.rows) for part in parts), "two rows have one key"

    def found(self, key, text, holds=None, **numbers):
        row = self.rows[key]
        row.state = TRIED if self.facts["is_gpu"] else REHEARSED
        if row.is_speed and not self.facts["is_gpu"]:
            holds = None
        row.found, row.holds, row.numbers = text, holds, numbers
        row.by = f"{self.facts['commit']}, {self.facts['cores']} cores"
        mark = "" if holds is None else " (holds)" if holds else " (DOES NOT HOLD)"
        print(f"  {row.what}: {text}{mark}", flush=True)
        self.write()

    def failed(self, key, reason):
        self.found(key, f"failed: {reason}")
        self.rows[key].holds = False
        self.write()

    def not_run(self, key, reason):
        """Notes why nothing ran. The state of the row stays."""
        self.rows[key].found = f"not run: {reason}"
        print(f"  {self.rows[key].what}: {self.rows[key].found}", flush=True)
        self.write()

    def reopen(self, part):
        """Drops what an earlier call found in this part."""
        for row in part.rows:
            row.state = WRITTEN if row.state == WRITTEN else COMPILED
            row.found, row.holds, row.numbers, row.by = "", None, {}, ""

    def were_compiled(self):
        for row in self.rows.values():
            if row.state == WRITTEN:
                row.state = COMPILED
        self.write()

    def take_over(self):
        """Takes over what an earlier call on a device of the same name found, so that a check can be split into several calls. Each row
        names the commit of its call."""
        earlier = self._read()
        if not earlier or any(earlier["facts"].get(name) != self.facts.get(name) for name in ("is_gpu", "device")):
            return
        for entry in earlier["rows"]:
            if entry["key"] in self.rows:
                self.rows[entry["key"]].__dict__.update({name: entry[name] for name in ("state", "found", "holds", "numbers", "by")})

    def _read(self):
        try:
            return json.loads(self.path.with_suffix(".json").read_text())
        except (OSError, ValueError):
            return None

    def write(self):
        rows = [{"part": part.name, **dataclasses.asdict(row)} for part in self.parts for row in part.rows]
        facts = {name: value for name, value in self.facts.items() if name != "torch_folder"}  # A path of that machine alone.
        text, page = json.dumps({"schema": 1, "facts": facts, "rows": rows}, indent=1) + "\n", "\n".join(self._page()) + "\n"
        for path in [self.path, *([self.also / self.path.name] if self.also else [])]:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path.with_suffix(".json"), text)
            replace(path, page)

    def _page(self):
        facts = self.facts
        yield "# On a GPU"
        yield ""
        yield (f"Written by `tools/gpu-check` on {datetime.date.today()}, Lockstep {facts['version']}, commit {facts['commit']}. The last "
               "column has the commit and the cores that a row was found with.")
        yield ""
        if facts["is_gpu"]:
            yield (f"{facts['device']}, {facts['memory_gib']:.0f} GiB, compute capability {facts['capability']}, driver {facts['driver']}; "
                   f"PyTorch {facts['torch']}, {facts['runtime']}, cuDNN {facts['cudnn']}, NCCL {facts['nccl']}, "
                   f"Python {facts['python']}; {facts['cores']} cores ({facts['processor']}). "
                   f"A copy on the device moves {facts['copy_gb_s']:.0f} GB/s, read and written bytes counted.")
        else:
            yield (f"**Rehearsed on CPU: nothing below was measured on a GPU**, and counts and shapes are too small for figures to mean "
                   f"anything. PyTorch {facts['torch']}, Python {facts['python']}, {facts['cores']} cores ({facts['processor']}).")
        yield ""
        yield (f"Each row is *{TRIED}* on this GPU, *{REHEARSED}* with small counts, *{COMPILED}* but not run, or *{WRITTEN}*. Peers are "
               "scripts of `bench/gpu`: PyTorch with fused optimizers, channels_last and autocast where the row has it, and "
               "its batches on the device before the clock starts. Steps are medians over windows, each ended by reading the loss.")
        for part in self.parts:
            yield from ["", f"## {part.title}", "", "| what | state | found | wanted | holds | by |", "|---|---|---|---|---|---|"]
            for row in part.rows:
                holds = "" if row.holds is None else "yes" if row.holds else "**no**"
                yield "| " + " | ".join(cell(each) for each in (row.what, row.state, row.found, row.wanted, holds, row.by)) + " |"
        yield from self._times()

    def _times(self):
        if not (seconds := self.facts.get("seconds")):
            return
        yield from ["", "## What the parts took", "", f"In seconds, on {self.facts['cores']} cores, and what one GPU and 16 cores are expected to take.",
                    "", "| part | here | expected on 16 cores | call |", "|---|---|---|---|"]
        for number, parts in enumerate(plan.CALLS, 1):
            for part in parts:
                yield f"| {part} | {seconds.get(part, '')} | {plan.seconds_text(*plan.EXPECTED_S[part])} | {number} |"
            yield f"| all of the call | | {plan.seconds_text(*plan.span(parts))}, at most {60 * plan.MINUTES:.0f} | {number} |"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def replace(path, text):
    """Writes a file as a whole or not at all, even if the check is killed meanwhile."""
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, path)
