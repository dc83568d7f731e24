#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_man.py LOCKSTEP FOLDER: manual pages from what `lockstep --help` says, one for each command: FOLDER/lockstep-submit.1

Made anew at each installation, so that they say what the program does.
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"^  (\S.*?)(?:  +(\S.*))?$")
EXIT_STATUS = (("0", "done"), ("1", "a bug in Lockstep"), ("2", "usage"), ("3", "a recipe or profile"),
               ("4", "the environment, a limit, a scheduler that refuses"), ("5", "data"), ("6", "input or output"),
               ("7", "a peer rank failed or was killed"), ("75", "stopped on request with a snapshot written"),
               ("128+n", "ended by signal n"))
TITLES = {"Positionals": "ARGUMENTS", "Options": "OPTIONS", "Subcommands": "COMMANDS", "Examples": "EXAMPLES",
          "Settings that most runs set": "SETTINGS"}


def said(program, *words):
    return subprocess.run([program, *words], text=True, capture_output=True, check=True).stdout


class Help:
    """The help of one command: what it is for, how it is called, notes, and tables of names and explanations."""

    def __init__(self, text):
        self.about, self.usage, self.notes, self.tables = "", [], "", {}
        table = None
        for line in text.splitlines():
            if line.startswith("Usage: "):
                self.usage = [line[len("Usage: "):]]
            elif self.usage and table is None and line.startswith(" "):  # The command's other form.
                self.usage.append(line.strip())
            elif line.endswith(":") and line[:-1] in TITLES:
                table = self.tables.setdefault(line[:-1], [])
            elif self.usage and line and not line.startswith(" "):
                self.notes += line + " "
            elif table is not None and (entry := ENTRY.match(line)):
                table.append([entry[1], entry[2] or ""])
            elif table and line.strip():  # An explanation below a name that was too long for one beside it.
                table[-1][1] = (table[-1][1] + " " + line.strip()).strip()
            elif line and not self.usage:
                self.about += line + " "
        self.about, self.notes = self.about.strip(), self.notes.strip()

    @property
    def commands(self):
        return [name for name, _ in self.tables.get("Subcommands", [])]


def roff(text):
    """Text with what has a meaning at a line's beginning, backslashes and dashes made plain."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def table_of(entries):
    for name, about in entries:
        yield ".TP"
        yield ".B " + roff(name.replace(" ...", "").replace(" Needs:", ", with"))
        yield roff(about) if about else "\\&"


def synopsis(usage):
    return "\n.br\n".join(".B " + roff(form) for form in usage)


def section(title, lines):
    return [f".SH {title}", *lines]


def date_of(program):
    return datetime.datetime.fromtimestamp(os.stat(program).st_mtime, datetime.timezone.utc).strftime("%Y-%m-%d")


def page(program, version, command):
    name = "-".join(["lockstep", *command])
    about = Help(said(program, *command, "--help"))
    lines = [f'.TH {name.upper()} 1 {date_of(program)} "lockstep {version}" "Lockstep"', *section("NAME", [f"{roff(name)} \\- {roff(about.about)}"]),
             *section("SYNOPSIS", [synopsis(about.usage)])]
    if about.notes:
        lines += section("DESCRIPTION", [roff(about.notes)])
    for title, entries in about.tables.items():
        if not (command and title == "Subcommands"):
            lines += section(TITLES[title], table_of(entries))
    if command:
        for inner in about.commands:
            text = Help(said(program, *command, inner, "--help"))
            lines += section(f"{' '.join(command)} {inner}".upper(), [roff(text.about), ".PP", synopsis(text.usage)])
            for entries in (text.tables.get(each, []) for each in ("Positionals", "Options", "Examples")):
                lines += table_of(entry for entry in entries if entry[0] != "-h,--help")
    lines += section("EXIT STATUS", [line for code, what in EXIT_STATUS for line in (".TP", f".B {code}", roff(what))])
    others = ["lockstep"] if command else [f"lockstep-{each}" for each in about.commands]
    lines += section("SEE ALSO", [", ".join(f"\\fB{roff(other)}\\fR(1)" for other in others)])
    return name, "\n".join(lines) + "\n", about.commands


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    version = said(program, "--version").split()[-1]
    folder.mkdir(parents=True, exist_ok=True)
    name, text, commands = page(program, version, [])
    (folder / f"{name}.1").write_text(text)
    for command in commands:
        name, text, _ = page(program, version, [command])
        (folder / f"{name}.1").write_text(text)
    print(f"man: {len(commands) + 1} pages in {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
