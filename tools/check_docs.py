#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md within 120 lines, links to files that are there, scripts that `make` calls there too, and no path of someone's
machine or note to oneself."""
import pathlib
import re
import subprocess
import sys

README_LINES = 120
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?[^)]*\)")
CALLED = re.compile(r"\b(?:tools|bench)/[\w./-]*\w(?![\w/])")
# Spelt so that this file passes its own check.
MACHINE_PATH = re.compile(r"(?<![\w.$}/~-])/(home|Users|root|work)/[\w.]")
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
TEXT = {".md", ".cc", ".h", ".py", ".sh", ".cmake", ".txt", ".toml", ".in", ".json", ""}
RECORDED = ("tests/golden/", "tests/layouts/", "third_party/", "datasets/")


def anchors_of(text):
    """The anchors that headings make, as GitHub writes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def link_faults(root, name, text):
    for target, anchor in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        page = root / name if not target else (root / name).parent.joinpath(target)
        if not page.exists():
            yield f"{name}: links to '{target}', which is not there"
        elif anchor and page.suffix == ".md" and anchor not in anchors_of(page.read_text()):
            yield f"{name}: links to '{target}#{anchor}', a heading that is not there"


def index_faults(root, text):
    """Pages that the index leaves out."""
    linked = {target for target, _ in LINK.findall(text)}
    for page in sorted((root / "docs").rglob("*.md")):
        own = page.relative_to(root / "docs").as_posix()
        if own != "README.md" and own not in linked:
            yield f"docs/README.md: leaves out {own}"


def faults(root, name, text):
    if name == "README.md" and text.count("\n") > README_LINES:
        yield f"README.md: {text.count(chr(10))} lines, want at most {README_LINES}"
    if name.endswith(".md"):
        yield from link_faults(root, name, text)
    if name == "docs/README.md":
        yield from index_faults(root, text)
    if name == "Makefile":
        for script in CALLED.findall(text):
            if not (root / script).is_file():
                yield f"Makefile: calls {script}, which is not there"
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line) and not name.endswith("_test.cc"):
            yield f"{name}:{number}: a path of one machine: {line.strip()[:80]}"
        if NOTE.search(line):
            yield f"{name}:{number}: a note to oneself: {line.strip()[:80]}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True, capture_output=True,
                           check=True).stdout.splitlines()
    found, pages = [], 0
    for name in sorted(names):
        path = root / name
        if path.suffix not in TEXT or name.startswith(RECORDED) or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        pages += name.endswith(".md")
        found += faults(root, name, text)
    print("\n".join(found) or f"{pages} pages")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
