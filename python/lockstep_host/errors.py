# SPDX-License-Identifier: Apache-2.0
"""Errors with the exit code, fact and hint that the trainer prints."""
import difflib
import traceback

RECIPE, ENVIRONMENT, DATA, IO = 3, 4, 5, 6


class Refusal(Exception):
    """An error in the user's recipe, code or data, with the exit code, the fact and the hint."""

    def __init__(self, code, fact, hint=""):
        super().__init__(fact)
        self.code, self.fact, self.hint = code, fact, hint


def told(error):
    """Returns the error on one line, then the traceback without the frames of lockstep_host."""
    lines = traceback.format_exception_only(type(error), error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "lockstep_host" not in frame.filename]
    text = "".join(lines).strip() + "\nTraceback (most recent call last):\n" + "".join(traceback.format_list(frames))
    return text.rstrip()


def nearest(name, names):
    found = difflib.get_close_matches(name, list(names), 1, 0.5)
    return found[0] if found else None
