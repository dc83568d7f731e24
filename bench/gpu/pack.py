# SPDX-License-Identifier: Apache-2.0
"""Makes the archive that tools/gpu-check needs on a machine without a network: the source bundle of tools/dist, and data."""
import json
import pathlib
import subprocess
import tarfile

MIB = 1 << 20
LIMIT = 64 * MIB
ABOUT = "gpu-check.json"
PARTS = ("mnist10k", "hymenoptera")
PHOTOGRAPHS_LIMIT = 10 * MIB


def commit_of(root):
    """Returns the commit of the sources, by the archive or by git."""
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
        for file_of_data in [*(data / "mnist10k").rglob("*"), *some_photographs(data / "hymenoptera")]:
            if file_of_data.is_file():
                archive.add(file_of_data, f"{bundle.name}/data/{file_of_data.relative_to(data)}", filter=anonymous)
    size = beside.stat().st_size
    if size > LIMIT:
        beside.unlink()
        raise SystemExit(f"error: the archive is {size / MIB:.1f} MiB, want at most {LIMIT // MIB}\n"
                         "  hint: photographs may be made smaller")
    beside.replace(file)
    print(f"{file}: {size / MIB:.1f} MiB. There: tar -xf {file.name} && {bundle.name}/tools/gpu-check")


def some_photographs(folder, limit=PHOTOGRAPHS_LIMIT):
    """Returns as many files of each folder as fit into the limit, evenly spread from the first to the last name."""
    folders = [sorted(path for path in each.iterdir() if path.suffix == ".jpg") for each in sorted(folder.glob("*/*")) if each.is_dir()]
    for share in range(100, 0, -1):
        chosen = [names[at * 100 // share] for names in folders for at in range(max(1, len(names) * share // 100))]
        if sum(path.stat().st_size for path in chosen) <= limit:
            return chosen
    return chosen


def anonymous(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
