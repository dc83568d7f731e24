# SPDX-License-Identifier: Apache-2.0
"""Errors as the trainer tells them."""
import difflib
import traceback

RECIPE, ENVIRONMENT, DATA, IO = 3, 4, 5, 6


class Refusal(Exception):
    """A mistake of the user's, with the exit code, the fact and the way out."""

    def __init__(self, code, fact, hint=""):
        super().__init__(fact)
        self.code, self.fact, self.hint = code, fact, hint


def told(error):
    """What went wrong on one line, then the traceback, from the user's own code on."""
    lines = traceback.format_exception_only(type(error), error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "lockstep_host" not in frame.filename]
    text = "".join(lines).strip() + "\nTraceback (most recent call last):\n" + "".join(traceback.format_list(frames))
    return text.rstrip()


def nearest(name, names):
    found = difflib.get_close_matches(name, list(names), 1, 0.5)
    return found[0] if found else None
