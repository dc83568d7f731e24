# SPDX-License-Identifier: Apache-2.0
"""What the programs that draw pictures of the documentation share."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def write_or_check(picture, text, of):
    """Writes `text` to the file `picture`. With --check it tells whether the file holds `text`, the picture of `of`. Returns the exit code."""
    if "--check" not in sys.argv:
        picture.write_text(text)
        return 0
    name = picture.relative_to(ROOT)
    if not picture.exists() or picture.read_text() != text:
        print(f"{name} is not the picture of {of}: {pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)} draws it")
        return 1
    print(f"{name} shows {of}")
    return 0
