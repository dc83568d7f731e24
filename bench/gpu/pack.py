# SPDX-License-Identifier: Apache-2.0
"""The archive that tools/gpu-check needs on a machine without a network: the source bundle of tools/dist, and data."""
import json
import pathlib
import subprocess
import tarfile

MIB = 1 << 20
LIMIT = 64 * MIB
ABOUT = "gpu-check.json"
PARTS = ("mnist10k", "hymenoptera")


def commit_of(root):
    """The commit that the sources are of: as packed, or as git says."""
    try:
        return json.loads((root / ABOUT).read_text())["commit"]
    except OSError:
        asked = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        return asked.stdout.strip() or "unknown"


def pack(root, data, file):
    for part in PARTS:
        if not (data / part).is_dir():
            raise SystemExit(f"error: {data / part} is not there\n"
                             f"  hint: LOCKSTEP_TEST_DATA names the folder that holds {' and '.join(PARTS)}")
    subprocess.run([root / "tools/dist", "source"], check=True)
    bundle = max((root / "dist/work").glob("lockstep-*/CMakeLists.txt"), key=lambda path: path.stat().st_mtime).parent
    (bundle / ABOUT).write_text(json.dumps({"commit": commit_of(root)}) + "\n")
    file = pathlib.Path(file)
    beside = file.with_name(file.name + ".tmp")
    with tarfile.open(beside, "w:gz", compresslevel=9) as archive:
        archive.add(bundle, bundle.name, filter=anonymous)
        for part in PARTS:
            archive.add(data / part, f"{bundle.name}/data/{part}", filter=anonymous)
    size = beside.stat().st_size
    if size > LIMIT:
        beside.unlink()
        raise SystemExit(f"error: the archive is {size / MIB:.1f} MiB, want at most {LIMIT // MIB}\n"
                         "  hint: photographs may be made smaller")
    beside.replace(file)
    print(f"{file}: {size / MIB:.1f} MiB. There: tar -xf {file.name} && {bundle.name}/tools/gpu-check")


def anonymous(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
