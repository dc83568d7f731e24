#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds sources against the budgets: file 400 lines, header 250, function 60 lines, 5 parameters; and asks for the
licence line. What is over for a reason stands in tools/budget_exceptions.txt.

The parser knows just enough C++: it follows braces and parentheses outside comments, strings and preprocessor lines. A
brace with a space before it that opens at namespace or class level behind a parameter list is a function's body.
"""
import pathlib
import re
import subprocess
import sys

FILE, HEADER, FUNCTION, PARAMETERS = 400, 250, 60, 5
LICENCE = "SPDX-License-Identifier: Apache-2.0"
NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'"""
                   r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.S | re.M)
SCOPE = re.compile(r"\s*(template\s*<[^{}]*>\s*)?(inline\s+)?(namespace|class|struct|union|enum|extern)\b")
CALL = re.compile(r"(operator\s*\(\)|operator\s*[^\s\w(]+|[\w~]+)\s*\(")


def blanked(text):
    """The text with comments, literals and directives blanked out, line for line."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def parameters(head):
    """Name and parameter count of the function that a declaration's head declares, or (None, 0)."""
    call = CALL.search(head)
    if not call:
        return None, 0
    depth = angle = count = 0
    seen = False
    for at, char in enumerate(head[call.end():], call.end()):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif char == "<" and re.search(r"\w$", head[:at]):
            angle += 1
        elif char == ">" and angle:
            angle -= 1
        elif char == "," and depth == 0 and angle == 0:
            count += 1
        seen = seen or not char.isspace()
    return call[1], count + seen


def functions(text):
    """(name, parameters, first line, lines) of each function; lines is 0 for a declaration."""
    code = blanked(text)
    head_start, parens, opaque, body = 0, 0, 0, None
    for at, char in enumerate(code):
        if char in "()":
            parens += 1 if char == "(" else -1
        elif opaque:
            opaque += (char == "{") - (char == "}")
            if opaque == 0 and body:
                name, count, first = body
                yield name, count, first, code.count("\n", 0, at) + 2 - first
                body, head_start = None, at + 1
        elif parens:
            continue
        elif char == "{":
            head = code[head_start:at]
            name, count = parameters(head)
            is_block = head[-1:].isspace()
            if is_block and SCOPE.match(head):
                head_start = at + 1
            else:
                opaque = 1
                if is_block and name and not re.search(r"=\s*$", head):
                    first = code.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
                    body = name, count, first
        elif char == "}":
            head_start = at + 1
        elif char == ";":
            name, count = parameters(code[head_start:at])
            if name and "=" not in code[head_start:at].split("(")[0]:
                yield name, count, code.count("\n", 0, at) + 1, 0
            head_start = at + 1


def exceptions(path):
    """{"file" or "file:function": reason}"""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))


def faults(path, name, allowed):
    text = path.read_text()
    lines = text.count("\n")
    if not any(line.removesuffix("-->").rstrip().endswith(LICENCE) for line in text.split("\n", 2)[:2]):
        yield f"{name}:1: no line that ends with '{LICENCE}'"
    limit = HEADER if path.suffix == ".h" else FILE
    if lines > limit and name not in allowed:
        yield f"{name}: {lines} lines, want at most {limit}"
    if path.suffix not in (".cc", ".h"):
        return
    for function, count, first, length in functions(text):
        if f"{name}:{function}" in allowed:
            continue
        if length > FUNCTION:
            yield f"{name}:{first}: {function} has {length} lines, want at most {FUNCTION}"
        if count > PARAMETERS:
            yield f"{name}:{first}: {function} has {count} parameters, want at most {PARAMETERS}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True, capture_output=True,
                            check=True).stdout.splitlines()
    names = [n for n in listed if n.endswith((".cc", ".h", ".py", ".sh")) and not n.startswith("third_party/")]
    allowed = exceptions(root / "tools/budget_exceptions.txt")
    stale = {key.split(":")[0] for key in allowed} - set(names)
    found = [f for n in sorted(names) if (root / n).exists() for f in faults(root / n, n, allowed)]
    found += [f"tools/budget_exceptions.txt: {name} is no longer there" for name in sorted(stale)]
    print("\n".join(found) or f"{len(names)} files")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
