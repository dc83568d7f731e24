#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The words of docs, READMEs and public headers, by folder: the median sentence, how many sentences a colon or a semicolon joins, lines that are too
wide, comments that open with "What", "It" or "A claim:", words that the glossary replaces, and folders without a README.

    tools/check_words.py             what is enforced
    tools/check_words.py --report    a table of every folder"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = 16  # The most that half of the sentences may have.
JOINED = 0.15
WIDTH = 100
# Pages that a program writes or that quote one: recorded tables and output.
GENERATED = {"docs/guide/commands.md", "docs/cluster/profile-keys.md", "docs/dev/moved-files.md", "docs/dev/glossary.md"}
GENERATED_FOLDERS = ("docs/measured/",)
ITEM_TERM = re.compile(r"^((?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\*\*[^*]*\*\*)(?:,? (?:and )?(?:`[^`]*`|\[[^\]]*\]\([^)]*\)))*):\s")
# Labels of a contract, which join nothing: "Throws: Error(kIo) naming the path."
LABEL = re.compile(r"\b(?:Shape|Throws|Returns|Blocks|Collective|Threads|Units?|LOCKSTEP_ASSERT|Example|Source):\s")
# "Throws: Error(kIo) if …; Error(kData) if …" is a list.
NEXT_ERROR = re.compile(r";\s+(?=Error\()")
BANNED = {
    r"\bA claim:": "True if",
    r"\bbesides,": "also",
    r"\banew\b": "again",
    r"\bnone the less\b": "still",
    r"\bas far as it tells\b": "if it reports it",
}


def without_indented_code(text):
    """The lines of Markdown without blocks of code, which are indented and follow an empty line."""
    lines, before, is_code = [], "", False
    for line in text.splitlines():
        is_indented = line.startswith(("    ", "\t"))
        is_code = is_indented and (is_code or not before.strip()) or (is_code and not line.strip())
        lines.append("" if is_code else line)
        before = line
    return lines


def prose(text):
    """Markdown without code, tables, headings and the marks of lists: one paragraph or item a string."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    paragraphs, current = [], []
    for line in without_indented_code(text) + [""]:
        stripped = line.strip()
        starts = re.match(r"([-*]|\d+\.)\s+", stripped)
        if not stripped or stripped[0] in "|#<" or starts:
            paragraphs.append(" ".join(current))
            # The colon after an item's term, such as a file's name or a link, joins nothing.
            current = [ITEM_TERM.sub(r"\1 ", stripped[starts.end():])] if starts else []
        else:
            current.append(stripped)
    return [each for each in paragraphs if each]


def comments(text):
    """The doc comments of a header: runs of `///` lines, and those behind a member."""
    blocks, current = [], []
    for line in text.splitlines() + [""]:
        found = re.match(r"\s*///(?!<)\s?(.*)", line)
        is_code = found and found[1].startswith("    ")
        if found and found[1].strip() and not is_code:
            current.append(found[1].strip())
            continue
        blocks.append(" ".join(current))
        current = []
        behind = re.search(r"///<\s?(.*)", line)
        blocks.append(behind[1].strip() if behind else "")
    return [each for each in blocks if each]


def sentences(paragraphs):
    for paragraph in paragraphs:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        plain = re.sub(r"`[^`]*`", "code", plain)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`(\"])", plain):
            words = re.findall(r"[\w'-]+", sentence)
            if len(words) >= 3:
                yield sentence, len(words)


def is_joined(sentence):
    """True if a colon or a semicolon joins two clauses. One that introduces a list or an example at the end of a paragraph does not count."""
    plain = NEXT_ERROR.sub(", ", LABEL.sub("", sentence))
    return bool(re.search(r"[;:]\s+\S+\s+\S+\s+\S+", plain))


class Count:
    def __init__(self):
        self.lengths, self.joined, self.faults = [], 0, []

    def add(self, paragraphs):
        for sentence, words in sentences(paragraphs):
            self.lengths.append(words)
            self.joined += is_joined(sentence)

    def median(self):
        return statistics.median(self.lengths) if self.lengths else 0

    def share(self):
        return self.joined / len(self.lengths) if self.lengths else 0.0

    def verdict(self, name):
        yield from self.faults
        if len(self.lengths) < 5:
            return
        if self.median() > WORDS:
            yield f"{name}: the median sentence has {self.median():g} words, want at most {WORDS}"
        if self.share() > JOINED:
            yield f"{name}: a colon or semicolon joins {self.share():.0%} of the sentences, want at most {JOINED:.0%}"


def banned_words(name, text):
    for pattern, better in BANNED.items():
        for found in re.finditer(pattern, text):
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: '{found[0]}', want '{better}'"


def page(name, text):
    count = Count()
    count.add(prose(text))
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        if len(line) > WIDTH and not in_code and not line.startswith(("|", "    ", "#", "[")) and "](" not in line:
            count.faults.append(f"{name}:{number}: {len(line)} columns, want at most {WIDTH}")
    count.faults += banned_words(name, text)
    return count


def header(name, text):
    count = Count()
    blocks = comments(text)
    count.add(blocks)
    for block in blocks:
        if re.match(r"What\b", block):
            count.faults.append(f"{name}: a comment opens with 'What': {block[:60]}")
    count.faults += banned_words(name, "\n".join(blocks))
    return count


# A comment that opens so needs the code or the comment beside it. What does it speak of?
NAMELESS = re.compile(r"(?:It|They|Its|Their|Those|The same|Does the same)\b(?! as\b)")


def nameless_openers(name, text):
    """Comments of two words or more that open with a word such as "It" in the place of a name."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*//+ ?(.*)", line)
        if found and not before.strip() and NAMELESS.match(found[1]) and " " in found[1].strip():
            yield f"{name}:{number}: a comment opens with '{NAMELESS.match(found[1])[0]}', want the name of the thing: {found[1][:60]}"
        before = found[1] if found else ""


def what_openers(name, text):
    """Comments of a source that open with "What"."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if re.match(r"(//+|#) What\b", stripped) and not before.startswith(("//", "#")):
            yield f"{name}:{number}: a comment opens with 'What': {stripped[:60]}"
        before = stripped


def folders_without_readme(names):
    """Folders below lockstep/ and tests/ with more than two sources and no README."""
    sources = {}
    for name in names:
        if name.startswith(("lockstep/", "tests/")) and name.endswith((".h", ".cc", ".py")):
            sources.setdefault(str(pathlib.PurePath(name).parent), []).append(name)
    for folder, held in sorted(sources.items()):
        if len(held) > 2 and f"{folder}/README.md" not in names and not folder.startswith("tests/golden/"):
            yield f"{folder}: has no README.md"


def readme_faults(name, text):
    if name.startswith(("lockstep/", "tests/")) and text.count("\n") > 15:
        yield f"{name}: {text.count(chr(10))} lines, want at most 15"


def counted(names, public):
    """{name: Count} of every page and public header."""
    found = {}
    for name in sorted(names):
        if name in GENERATED or name.startswith(GENERATED_FOLDERS) or not (ROOT / name).is_file():
            continue
        is_page = name.endswith(".md") and (name.startswith(("docs/", "lockstep/", "tests/", "examples/")) or "/" not in name)
        if is_page:
            text = (ROOT / name).read_text()
            found[name] = page(name, text)
            found[name].faults += readme_faults(name, text)
        elif name in public:
            found[name] = header(name, (ROOT / name).read_text())
    return found


def table(found):
    folders = {}
    for name, count in found.items():
        into = folders.setdefault((str(pathlib.PurePath(name).parent), name.endswith(".md")), Count())
        into.lengths += count.lengths
        into.joined += count.joined
        into.faults += count.faults
    for (folder, is_docs), count in sorted(folders.items()):
        kind = "docs" if is_docs else "headers"
        print(f"{folder:32} {kind:8} {len(count.lengths):5} sentences  median {count.median():4g}  joined {count.share():4.0%}  faults {len(count.faults)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--pages", action="store_true", help="with --report: a line for each page and header")
    options = parser.parse_args()
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.split()
    public = {line.strip() for line in (ROOT / "cmake/public_headers.txt").read_text().splitlines() if line.strip() and not line.startswith("#")}
    found = counted(set(names), public)
    if options.pages:
        for name, count in found.items():
            print(f"{name:44} median {count.median():4g}  joined {count.share():4.0%}  faults {len(count.faults)}")
    if options.report:
        table(found)
        return 0
    faults = list(folders_without_readme(names))
    for name in names:
        if name.startswith(("lockstep/", "examples/", "tests/")) and name.endswith((".cc", ".h")):
            text = (ROOT / name).read_text()
            faults += [*what_openers(name, text), *nameless_openers(name, text)]
    for name, count in found.items():
        faults += count.verdict(name)
    print("\n".join(faults) or f"{len(found)} pages and headers")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
