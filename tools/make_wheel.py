#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_wheel.py VERSION GLIBC FOLDER: FOLDER/lockstep as a wheel that puts `lockstep` on PATH, with the recipes, the digits
that they train on, and the source bundle that `lockstep setup` builds the training half from.

A wheel is a zip with a RECORD of what is in it; what lies under NAME.data/scripts and NAME.data/data goes into the
environment's bin/ and to its root. Source: PyPA, "Binary distribution format".
"""
import base64
import hashlib
import pathlib
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAME = "lockstep_hpc"  # On the package index `lockstep` is somebody else's.
TIME = (2020, 1, 1, 0, 0, 0)  # The same content gives the same bytes.


def entries(version, folder):
    """(name in the wheel, bytes, whether it is a program) of all but the RECORD."""
    data, about = f"{NAME}-{version}.data", f"{NAME}-{version}.dist-info"
    for program in ("lockstep", "lockstep-data"):
        yield f"{data}/scripts/{program}", (folder / program).read_bytes(), True
    for part in ("recipes", "datasets"):
        for path in sorted((ROOT / part).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{data}/data/share/lockstep/{path.relative_to(ROOT)}", path.read_bytes(), False
    bundle = f"lockstep-{version}.tar.gz"
    yield f"{data}/data/share/lockstep/{bundle}", (folder / bundle).read_bytes(), False
    module = ROOT / "python" / "lockstep.py"
    if module.exists():
        yield "lockstep.py", module.read_bytes(), False
    yield f"{about}/METADATA", metadata(version).encode(), False
    yield f"{about}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), False


def metadata(version):
    return "\n".join(["Metadata-Version: 2.1", "Name: lockstep-hpc", f"Version: {version}",
                      "Summary: Data-parallel training on one device or a thousand nodes, and the batch jobs around it",
                      "License: Apache-2.0", "Requires-Python: >=3.6", "Description-Content-Type: text/markdown", "",
                      (ROOT / "README.md").read_text()])


def main():
    version, glibc, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    tag = f"py3-none-manylinux_{glibc}_x86_64"
    about = f"{NAME}-{version}.dist-info"
    files = list(entries(version, folder))
    wheel = f"Wheel-Version: 1.0\nGenerator: lockstep tools/make_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files.append((f"{about}/WHEEL", wheel.encode(), False))
    record = []
    path = folder / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        def put(name, content, is_program):
            info = zipfile.ZipInfo(name, TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(info, content)
        for name, content, is_program in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            put(name, content, is_program)
        record.append(f"{about}/RECORD,,")
        put(f"{about}/RECORD", ("\n".join(record) + "\n").encode(), False)
    print(f"dist: {path}, {path.stat().st_size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
