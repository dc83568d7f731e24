# SPDX-License-Identifier: Apache-2.0
"""The seconds that each part of tools/gpu-check is expected to take on a machine with one GPU and 16 cores. The parts are divided among
several calls. docs/measured/gpu-check.md has the same numbers and says which were measured. A test compares both."""

MINUTES = 9.3  # The planned length of a call. A call may take ten minutes.

EXPECTED_S = {"build": (150, 220), "tests": (80, 80), "cnn": (70, 70), "resnet50": (140, 140), "photographs": (60, 60),
              "inductor": (150, 200), "graph": (5, 5), "losses": (50, 90), "ranks": (25, 25), "scale": (35, 35), "resume": (20, 20), "python": (50, 50),
              "accuracy": (100, 100), "bert": (80, 80), "cifar": (100, 100)}

CALLS = (("build", "tests", "cnn"), ("resnet50", "photographs", "inductor", "graph"),
         ("losses", "ranks", "scale", "resume", "python", "accuracy", "bert", "cifar"))


def span(parts):
    return tuple(sum(EXPECTED_S[part][end] for part in parts) for end in (0, 1))


def seconds_text(least, most):
    return f"{least}" if least == most else f"{least}–{most}"


def lines(seconds, cores):
    """Yields lines of text about the calls and the expected time of each. `seconds` has the times of parts on this machine."""
    for number, parts in enumerate(CALLS, 1):
        least, most = span(parts)
        yield f"call {number} of {len(CALLS)}, at most {60 * MINUTES:.0f} s: expected {seconds_text(least, most)} s on 16 cores"
        for part in parts:
            here = f"; took {seconds[part]:.0f} s on {cores} cores" if part in seconds else ""
            yield f"  {part:12} {seconds_text(*EXPECTED_S[part]):>8} s{here}"
