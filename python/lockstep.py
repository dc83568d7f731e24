# SPDX-License-Identifier: Apache-2.0
"""Stops, resumes and saves a training loop in Python. A resumed run goes on exactly where it stopped, and a crash loses no save.

    import lockstep
    run = lockstep.start(model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in run.epochs(10):
        for batch in run.steps(loader):
            ...                       # the step as it was, optimizer.step() included

How a run stops. Ranks look at each other's flags between two updates, in `Run._end_step`. A look reads the sum that all ranks
began to add up at the look before, one to eight steps earlier. So all ranks learn of a signal, a request or the job's end
after the same update, and all leave the loop there.

How a save works. The training's thread copies weights, optimizer and random states, and another thread writes the copy. Only
rank 0 writes, in the format of docs/formats/snapshot-format.md. It fills a folder with a temporary name, syncs it and renames it.

How a run resumes. `start` takes the newest snapshot that is whole. A snapshot in the middle of an epoch also holds the random
states of the epoch's start. With these states the loader yields the same batches again, and the batches that were trained on
are skipped. A `Sampler` skips without reading, because its order follows from seed, epoch and place.

The sections of this file, in order: errors, values as JSON, tensors in files, the folder of snapshots, the run's lock, the page
for a parent, requests, signals and the clock, metrics and TensorBoard, the order of samples, ranks, random states, the saved
objects, saves, the run, reading a run, other trainers.

`Run` consists of `_Folder`, `_Cursor` (the place in the data), `_Stops` (what ranks agree on), `_Records` (numbers) and `_Saves`.
None of these parts knows `Run`, which calls their collectives in the same order on all ranks.

This file needs Python 3.8 or later and PyTorch 2.0 or later. PyTorch is imported when a run starts. The manual is
docs/guide/python.md.
"""
import atexit
import base64
import collections
import collections.abc
import contextlib
import ctypes
import datetime
import errno
import faulthandler
import fcntl
import hashlib
import json
import math
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import stat
import struct
import sys
import threading
import time
import types
import weakref
import zlib

__all__ = ["Error", "HuggingFace", "Lightning", "Run", "Sampler", "load", "log", "phase", "read", "save", "should_stop", "start"]

REQUEUE = 75  # The exit code that asks for another start, EX_TEMPFAIL of sysexits.h.
_FORMAT = "lockstep-snapshot"
_MODEL, _OPTIMIZER, _EXTENSIONS, _STATE = "model.safetensors", "optimizer.safetensors", "extensions.safetensors", "state.json"


# ---- errors and messages ----


class Error(RuntimeError):
    """An error with a fact and a hint: the value found and the value wanted, then the way out."""

    def __init__(self, fact, hint):
        super().__init__(fact + "\n  " + hint)
        self.fact, self.hint = fact, hint


def _say(text):
    print("lockstep: " + text, file=sys.stderr, flush=True)


def _warn(text):
    _say("warning: " + text)


def _torch():
    import torch
    return torch


# ---- values as JSON ----
#
# JSON has lists, objects with strings as keys, and finite numbers. Any other value of a state_dict becomes an object with a key
# that begins with '$'. A tensor is written to a file of tensors, and JSON holds its name. A function is not saved. The program
# that resumes must have the same function at the same place.

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_FACTORIES = {each.__name__: each for each in (dict, float, int, list, set, str)}


def _is_numpy(value):
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _shown(path):
    return str(path[0]) + "".join("[%r]" % (each,) for each in path[1:])


class _Packer:
    """Converts values to JSON and collects their tensors by name. Raises Error for a value that a snapshot cannot hold."""

    def __init__(self, name):
        self.tensors = {}
        self.name = name  # A function from the path of a tensor to its name.

    def pack(self, value, path):
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if kind in (list, tuple, set, frozenset, dict) or isinstance(value, (dict, collections.deque)):
            return self._pack_container(value, kind, path)
        return self._pack_other(value, kind, path)

    def _pack_container(self, value, kind, path):
        if isinstance(value, dict):
            return self._pack_dict(value, kind, path)
        items = sorted(value, key=repr) if kind in (set, frozenset) else value
        packed = [self.pack(each, path + (i,)) for i, each in enumerate(items)]
        if kind is list:
            return packed
        out = {"$" + kind.__name__: packed}
        if isinstance(value, collections.deque):
            out["maxlen"] = value.maxlen
        return out

    def _pack_dict(self, value, kind, path):
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.pack(each, path + (key,)) for key, each in value.items()}
        pairs = [[self.pack(key, path + (key,)), self.pack(each, path + (key,))] for key, each in value.items()]
        if kind is collections.defaultdict:
            factory = getattr(value.default_factory, "__name__", None)
            if factory is not None and _FACTORIES.get(factory) is not value.default_factory:
                self._refuse(value, path)
            return {"$defaultdict": pairs, "factory": factory}
        if kind not in (dict, collections.OrderedDict, collections.Counter):
            self._refuse(value, path)
        return {"$" + kind.__name__: pairs}

    def _pack_other(self, value, kind, path):
        torch = _torch()
        if isinstance(value, torch.Tensor):
            return {"$tensor": self._add(value, path)}
        if isinstance(value, torch.Size):
            return {"$Size": list(value)}
        if isinstance(value, (torch.dtype, torch.device)):
            return {"$" + kind.__name__: str(value).replace("torch.", "")}
        if kind in (bytes, bytearray):
            return {"$" + kind.__name__: base64.b64encode(value).decode()}
        if kind is complex:
            return {"$complex": [self.pack(value.real, path), self.pack(value.imag, path)]}
        if kind is range:
            return {"$range": [value.start, value.stop, value.step]}
        if isinstance(value, pathlib.PurePath):
            return {"$path": str(value)}
        if _is_numpy(value) and not value.dtype.hasobject:
            return {"$numpy": base64.b64encode(value.tobytes()).decode(), "dtype": value.dtype.str,
                    "shape": list(value.shape) if hasattr(value, "tolist") and kind.__name__ == "ndarray" else None}
        if isinstance(value, _FUNCTIONS):
            return {"$function": getattr(value, "__qualname__", "")}
        return self._refuse(value, path)

    def _refuse(self, value, path):
        raise Error("%s is of type %s.%s, which a snapshot cannot hold" % (_shown(path), type(value).__module__, type(value).__qualname__),
                    "give start() an object whose state_dict() holds tensors, numbers, texts, lists, tuples and dicts")

    def _add(self, tensor, path):
        name = wanted = self.name(path)
        count = 1
        while name in self.tensors:
            count += 1
            name = "%s~%d" % (wanted, count)
        _dtype_name(tensor, path)
        self.tensors[name] = tensor
        return name


def _unpacked(value, tensors, live=None):
    """Returns the value that `_Packer.pack` converted to JSON. `live` is the program's current state, from which functions are taken."""
    if isinstance(value, list):
        return [_unpacked(each, tensors, _part(live, i)) for i, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    mark = next((key for key in value if key.startswith("$")), None)
    if mark is None:
        return {key: _unpacked(each, tensors, _part(live, key)) for key, each in value.items()}
    return _unpacked_mark(mark[1:], value[mark], value, tensors, live)


def _part(live, key):
    try:
        return live[key]
    except (TypeError, KeyError, IndexError):
        return None


def _unpacked_mark(mark, inner, value, tensors, live):
    if mark == "tensor":
        return tensors[inner]
    if mark == "function":
        if live is None:
            raise Error("the snapshot names a function '%s' that the object does not have now" % inner,
                        "start with the objects that wrote the snapshot, or anew with resume=\"none\"")
        return live
    if mark in ("dict", "OrderedDict", "Counter", "defaultdict"):
        pairs = [(_unpacked(key, tensors), each) for key, each in inner]
        pairs = [(key, _unpacked(each, tensors, _part(live, key))) for key, each in pairs]
        if mark == "defaultdict":
            return collections.defaultdict(_FACTORIES.get(value["factory"]), pairs)
        return {"dict": dict, "OrderedDict": collections.OrderedDict, "Counter": lambda x: collections.Counter(dict(x))}[mark](pairs)
    return _unpacked_plain(mark, inner, value, tensors)


def _unpacked_plain(mark, inner, value, tensors):
    if mark in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[mark](_unpacked(inner, tensors))
    if mark == "deque":
        return collections.deque(_unpacked(inner, tensors), value["maxlen"])
    if mark == "float":
        return float(inner)
    if mark in ("bytes", "bytearray"):
        return {"bytes": bytes, "bytearray": bytearray}[mark](base64.b64decode(inner))
    if mark == "complex":
        return complex(*_unpacked(inner, tensors))
    if mark == "range":
        return range(*inner)
    if mark == "path":
        return pathlib.Path(inner)
    if mark == "numpy":
        return _numpy_value(inner, value)
    torch = _torch()
    made = {"Size": torch.Size, "device": torch.device, "dtype": lambda name: getattr(torch, name)}.get(mark)
    if made is None:
        raise Error("the snapshot's state holds a '$%s'" % mark, "it was written by a newer Lockstep: use that one")
    return made(inner)


def _numpy_value(inner, value):
    import numpy
    flat = numpy.frombuffer(bytearray(base64.b64decode(inner)), dtype=numpy.dtype(value["dtype"]))
    return flat[0] if value["shape"] is None else flat.reshape(value["shape"])


# ---- tensors in files: the safetensors format ----

_DTYPES = {"float64": ("F64", 8), "complex64": ("C64", 8), "int64": ("I64", 8), "uint64": ("U64", 8), "float32": ("F32", 4),
           "int32": ("I32", 4), "uint32": ("U32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int16": ("I16", 2),
           "uint16": ("U16", 2), "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "int8": ("I8", 1),
           "uint8": ("U8", 1), "bool": ("BOOL", 1)}
_BLOCK = 8 << 20


def _dtype_name(tensor, path):
    torch = _torch()
    name = str(tensor.dtype).replace("torch.", "")
    if name not in _DTYPES or tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise Error("%s is a tensor of %s, %s, on %s, which a snapshot cannot hold" % (_shown(path), tensor.dtype, tensor.layout, tensor.device),
                    "want a dense tensor of one of " + " ".join(_DTYPES))
    return name


def _bytes_of(tensor):
    """Returns the memory of a contiguous CPU tensor as bytes, without a copy. The tensor must outlive the result."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(tensor.data_ptr())).cast("B")


def _safetensors_parts(tensors):
    """Yields the bytes of a file with these tensors, in parts. Wide dtypes come first, so that every tensor is aligned."""
    def width(item):
        return -_DTYPES[_dtype_name(item[1], (item[0],))][1]
    ordered = sorted(tensors.items(), key=width)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in ordered:
        code, size = _DTYPES[_dtype_name(tensor, (name,))]
        end = at + tensor.numel() * size
        header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, tensor in ordered:
        yield _bytes_of(tensor)


def _read_tensors(path):
    """Returns the tensors of a file by name, each in memory of its own, or {} if there is no such file."""
    torch = _torch()
    if not os.path.exists(path):
        return {}
    kinds = {code: (getattr(torch, name, None), size) for name, (code, size) in _DTYPES.items()}
    with open(path, "rb") as file:
        data = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(data)
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(bytes(data[8:8 + length]).decode())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        dtype, size = kinds[entry["dtype"]]
        begin, end = entry["data_offsets"]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
            continue
        flat = torch.frombuffer(data, dtype=dtype, count=(end - begin) // size, offset=8 + length + begin)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


# ---- the folder of snapshots: docs/formats/snapshot-format.md ----

_STEP_NAME = re.compile(r"step-([0-9]{10})(\.old)?")
_TEMPORARY = re.compile(r"\.tmp-(.*)-([1-9][0-9]*)\.[^.]*(?:\.old)?")
_FOREIGN_AGE = 3600  # Seconds. A live writer writes far more often.
_RENAME_EXCHANGE = 2


def _host():
    return socket.gethostname() or "unknown"


def _temporary(folder, purpose):
    return os.path.join(folder, ".tmp-%s-%d.%s" % (_host(), os.getpid(), purpose))


def _sync_folder(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_durable_folder(path):
    """Creates a folder and its parents so that they survive a crash of the machine."""
    path = os.path.abspath(path)
    if not os.path.isdir(path):
        _make_durable_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    with contextlib.suppress(PermissionError):
        _sync_folder(os.path.dirname(path))


def _write_file(path, parts):
    """Writes and syncs a new file. Returns its CRC-32 and its size in bytes."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    crc = size = 0
    try:
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), _BLOCK):
                block = view[at:at + _BLOCK]
                crc = zlib.crc32(block, crc)
                size += len(block)
                while len(block):
                    block = block[os.write(fd, block):]
        os.fsync(fd)
    finally:
        os.close(fd)
    return crc, size


def _replace_file(path, text):
    """Replaces a small file in one step. A reader finds the old text or the new text, never a part."""
    made = _temporary(os.path.dirname(path), os.path.basename(path).replace(".", "-"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    _write_file(made, [text.encode()])
    os.replace(made, path)


def _read_text(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _manifest_text(run, step, files):
    text = "%s 2\nchecksum crc32\nrun %s\nstep %d\n" % (_FORMAT, run, step)
    text += "".join("%08x  %d  %s\n" % (crc, size, name) for name, (crc, size) in files.items())
    return text + "%08x\n" % zlib.crc32(text.encode())


class _Xxh3:
    """XXH3, which the C++ trainer writes. Raises ImportError without the package xxhash."""

    def __init__(self):
        import xxhash
        self._sum = xxhash.xxh3_64()

    def update(self, data):
        self._sum.update(data)

    def text(self):
        return self._sum.hexdigest()


class _Crc32:
    def __init__(self):
        self._sum = 0

    def update(self, data):
        self._sum = zlib.crc32(data, self._sum)

    def text(self):
        return "%08x" % self._sum


def _parsed_manifest(text):
    """Returns (name of the checksum, run, step, {file: (checksum, size)}). Raises ValueError with the fact."""
    lines = text.split("\n")
    if lines.pop() != "" or len(lines) < 3:
        raise ValueError("MANIFEST is cut short")
    version = {_FORMAT + " 1": 1, _FORMAT + " 2": 2}.get(lines[0])
    if version is None:
        raise ValueError("MANIFEST begins with %r, want '%s 2'" % (lines[0][:80], _FORMAT))
    kind = "xxh3"
    if version == 2:
        kind = {"checksum crc32": "crc32", "checksum xxh3": "xxh3"}.get(lines[1])
        if kind is None:
            raise ValueError("MANIFEST:2 is %r, want 'checksum crc32' or 'checksum xxh3'" % lines[1][:80])
    seal = {"crc32": _Crc32, "xxh3": _Xxh3}[kind]()
    seal.update(text[:len(text) - len(lines[-1]) - 1].encode("utf-8", "surrogateescape"))
    if seal.text() != lines[-1]:
        raise ValueError("MANIFEST's lines have the checksum %s, and its last line says %s" % (seal.text(), lines[-1][:80]))
    run = step = None
    if version == 2:
        run, step = re.fullmatch("run ([0-9a-f]{32})", lines[2]), re.fullmatch("step (0|[1-9][0-9]*)", lines[3])
        if not run or not step:
            raise ValueError("MANIFEST names no run or no step")
        run, step = run[1], int(step[1])
    files = {}
    for line in lines[4 if version == 2 else 1:-1]:
        entry = re.fullmatch(r"([0-9a-f]+)  (0|[1-9][0-9]*)  ([^/\x00-\x1f\x7f]+)", line)
        if not entry or entry[3] in (".", "..", "MANIFEST") or entry[3] in files:
            raise ValueError("MANIFEST has the line %r, want '<checksum>  <bytes>  <name>'" % line[:80])
        files[entry[3]] = (entry[1], int(entry[2]))
    if not files:
        raise ValueError("MANIFEST lists no file")
    return kind, run, step, files


def _file_fault(snapshot, name, checksum, size, kind):
    path = os.path.join(snapshot, name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return "%s: %s" % (name, error.strerror)
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return name + " is not a plain file"
        if found.st_size != size:
            return "%s has %d bytes, want %d" % (name, found.st_size, size)
        total = {"crc32": _Crc32, "xxh3": _Xxh3}[kind]()
        try:
            for block in iter(lambda: file.read(_BLOCK), b""):
                total.update(block)
        except OSError as error:
            return "%s: %s" % (name, error.strerror)
    return None if total.text() == checksum else "%s has the checksum %s, want %s" % (name, total.text(), checksum)


def _run_id(snapshots):
    text = _read_text(os.path.join(snapshots, "run-id"))
    return text[:-1] if re.fullmatch("[0-9a-f]{32}\n", text) else None


def _snapshot_faults(snapshot):
    """Returns a list of the faults of a snapshot, which is empty if the snapshot is whole. Reads every byte."""
    try:
        kind, run, step, files = _parsed_manifest(_read_text(os.path.join(snapshot, "MANIFEST")))
    except ValueError as error:
        return [str(error)]
    except ImportError:
        return ["its checksums are XXH3, and the package xxhash is not there to check them"]
    except OSError as error:
        return ["MANIFEST: %s" % error.strerror]
    faults = []
    place = os.path.realpath(snapshot)
    named = _STEP_NAME.fullmatch(os.path.basename(place))
    if named and step is not None:
        if int(named[1]) != step:
            faults.append("MANIFEST is of step %d, want %d as the folder's name says" % (step, int(named[1])))
        owner = _run_id(os.path.dirname(place))
        if owner and owner != run:
            faults.append("MANIFEST is of run %s, want %s, whose folder this is" % (run, owner))
    for name, (checksum, size) in files.items():
        faults.append(_file_fault(snapshot, name, checksum, size, kind))
    return [each for each in faults if each]


def _listed_snapshots(snapshots):
    """Returns (step, path) of each snapshot, oldest first. Of one step, a snapshot that is being replaced comes first."""
    found = []
    for name in os.listdir(snapshots) if os.path.isdir(snapshots) else ():
        match = _STEP_NAME.fullmatch(name)
        if match:
            found.append((int(match[1]), not match[2], os.path.join(snapshots, name)))
    return [(step, path) for step, _, path in sorted(found)]


def _ensure_run_id(snapshots):
    found = _run_id(snapshots)
    for _, path in reversed([] if found else _listed_snapshots(snapshots)):
        with contextlib.suppress(ValueError, OSError, ImportError):
            found = found or _parsed_manifest(_read_text(os.path.join(path, "MANIFEST")))[1]
    if not found or not _run_id(snapshots):
        found = found or os.urandom(16).hex()
        _replace_file(os.path.join(snapshots, "run-id"), found + "\n")
        _sync_folder(snapshots)
    return found


def _is_dead_process(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _is_idle(path):
    def changed(each):
        with contextlib.suppress(OSError):
            return os.lstat(each).st_mtime
        return 0
    inner = os.listdir(path) if os.path.isdir(path) and not os.path.islink(path) else ()
    return time.time() - max([changed(path)] + [changed(os.path.join(path, each)) for each in inner]) > _FOREIGN_AGE


def _remove_temporaries(snapshots, of_all):
    """Removes the temporary files of dead writers. `of_all` removes those of all writers, and needs the run's lock."""
    for name in os.listdir(snapshots):
        owner = _TEMPORARY.fullmatch(name)
        if not owner:
            continue
        path = os.path.join(snapshots, name)
        is_ours = owner[1] == _host()
        if of_all or (is_ours and (int(owner[2]) == os.getpid() or _is_dead_process(int(owner[2])))) or (not is_ours and _is_idle(path)):
            _remove_tree(path)


def _remove_tree(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _remove_snapshot(path):
    """Removes a snapshot. The folder is renamed first, so that a reader never sees a part of a snapshot."""
    folder, name = os.path.split(path)
    if name.startswith(".tmp-"):
        return _remove_tree(path)
    aside = _temporary(folder, "removed-" + name.partition(".")[0])
    _remove_tree(aside)
    os.rename(path, aside)
    return _remove_tree(aside)


def _exchange(first, second):
    """Swaps the names of two folders in one call. Returns False if the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    at_cwd = -100
    if libc.renameat2(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), second)


def _put_in_place(made, place):
    """Renames the folder `made` to `place`. Returns the new path of the snapshot that was at `place`, or None."""
    try:
        os.rename(made, place)
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if _exchange(made, place):
        return made
    old = place + ".old"
    if os.path.exists(old):
        _remove_snapshot(old)
    os.rename(place, old)
    try:
        os.rename(made, place)
    except OSError:
        os.rename(old, place)
        raise
    return old


def _link(snapshots, name, target):
    made = _temporary(snapshots, name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    os.symlink(target, made)
    return made


def _write_snapshot(snapshots, step, contents):
    """Writes the snapshot of a step from {file name: bytes in parts}. Returns its path and its size in bytes. Raises OSError."""
    if not os.path.isdir(snapshots):
        _make_durable_folder(snapshots)
    _remove_temporaries(snapshots, of_all=False)
    name = "step-%010d" % step
    made, place = _temporary(snapshots, name), os.path.join(snapshots, name)
    link = None
    try:
        os.mkdir(made)
        files = {file: _write_file(os.path.join(made, file), parts) for file, parts in contents.items()}
        manifest = _manifest_text(_ensure_run_id(snapshots), step, files)
        _write_file(os.path.join(made, "MANIFEST"), [manifest.encode()])
        _sync_folder(made)
        link = _link(snapshots, "latest", name)
        # Only renames follow, and a full disk does not stop a rename.
        replaced = _put_in_place(made, place)
    except BaseException:
        _remove_tree(made)
        if link:
            _remove_tree(link)
        raise
    # Until the rename is on disk, a crash may bring the replaced snapshot back.
    _sync_folder(snapshots)
    os.rename(link, os.path.join(snapshots, "latest"))
    _sync_folder(snapshots)
    if replaced:
        _remove_snapshot(replaced)
    return place, len(manifest.encode()) + sum(size for _, size in files.values())


def _mark_best(snapshots, name):
    os.rename(_link(snapshots, "best", name), os.path.join(snapshots, "best"))
    _sync_folder(snapshots)


def _prune(snapshots, keep):
    """Removes all snapshots but the best one and the newest `keep` others."""
    best = os.path.basename(os.readlink(os.path.join(snapshots, "best"))) if os.path.islink(os.path.join(snapshots, "best")) else None
    paths = [path for _, path in _listed_snapshots(snapshots) if os.path.basename(path) != best]
    for path in paths[:-keep] if keep > 0 else ():
        _remove_snapshot(path)


def _require_room(snapshots, size):
    """Raises Error if the disk has no room for `size` bytes. Reserves the room and frees it, so a full disk is found hours earlier."""
    libc = ctypes.CDLL(None, use_errno=True)
    if size <= 0 or not hasattr(libc, "fallocate64"):
        return
    path = _temporary(snapshots, "room")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        if libc.fallocate64(fd, 0, ctypes.c_longlong(0), ctypes.c_longlong(size)) != 0:
            code = ctypes.get_errno()
            if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise Error("a snapshot takes %.1f MB, and %s has no room for it: %s" % (size / 1e6, snapshots, os.strerror(code)),
                            "free some space, or give start() another folder")
    finally:
        os.close(fd)


# ---- the lock of a run folder: run.lock ----


def _stat_of(pid):
    """Returns (state, start time in clock ticks) of a process, or None if there is no such process."""
    text = _read_text("/proc/%d/stat" % pid)
    fields = text.rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) >= 20 else None


def _identity():
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    own = _stat_of(os.getpid())
    return {"host": _host(), "pid": os.getpid(), "started": own[1] if own else 0,
            "boot": _read_text("/proc/sys/kernel/random/boot_id").strip(), "pid_namespace": namespace,
            "job": os.environ.get("SLURM_JOB_ID", ""), "restarts": int(restarts) if restarts.isdigit() else 0}


def _liveness(other, own):
    """Returns True if the process is alive, False if it is dead, and None if this machine cannot tell."""
    if own["job"] and other["job"] == own["job"] and other["restarts"] < own["restarts"]:
        return False
    if not own["boot"] or other["boot"] != own["boot"] or not own["pid_namespace"] or other["pid_namespace"] != own["pid_namespace"]:
        return None
    found = _stat_of(other["pid"])
    return bool(found and found[1] == other["started"] and found[0] not in "ZX")


class _RunLock:
    """Lets one live run at a time write in a folder. The kernel drops the lock when the process dies. Raises Error if it is taken."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "run.lock")
        for _ in range(10):  # Another attempt follows if another process replaced the file meanwhile.
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if self._take():
                return
            os.close(self.fd)
        self._refuse(self._holder())

    def _holder(self):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            holder = json.loads(_read_text(self.path))
            if all(key in holder for key in ("host", "pid", "started", "boot", "pid_namespace", "job", "restarts")):
                return holder
        return None

    def _take(self):
        holder, own = self._holder(), _identity()
        has_locks = True
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not holder or _liveness(holder, own) is not False:
                self._refuse(holder)
            # A child of the dead holder still holds the lock of the old file. A new file gets a lock of its own.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            return False
        except OSError:
            has_locks = False
        if not has_locks and holder:
            alive = _liveness(holder, own)
            if alive:
                self._refuse(holder)
            if alive is None:
                _warn("run.lock is taken from process %d on %s, which cannot be asked" % (holder["pid"], holder["host"]))
        try:
            if not os.path.samestat(os.fstat(self.fd), os.stat(self.path)):
                return False
        except FileNotFoundError:
            return False
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, json.dumps(own).encode() + b"\n", 0)
        return True

    def _refuse(self, holder):
        with contextlib.suppress(OSError):
            os.close(self.fd)
        who = "process %d on %s" % (holder["pid"], holder["host"]) if holder else "its holder has not written its name yet"
        raise Error("another live run writes in '%s': %s" % (os.path.dirname(self.path), who),
                    "wait for it or stop it, or give this run a folder of its own with start(folder=...)")

    def close(self):
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)
            os.close(self.fd)


# ---- the page in which this rank notes what it does ----

_stack_offer = None  # The result of the first call of `_offered_stack`.


def _offered_stack():
    """Makes Python write the interrupted thread's stack into a file in memory when a signal arrives.

    Returns (signal number, file descriptor), or (0, 0) if no real-time signal is free.
    """
    global _stack_offer
    if _stack_offer is None:
        _stack_offer = (0, 0)
        caught = re.search("^SigCgt:\t([0-9a-f]+)$", _read_text("/proc/self/status"), re.M)
        free = [] if not caught else [each for each in range(signal.SIGRTMIN + 9, signal.SIGRTMAX) if not int(caught[1], 16) >> (each - 1) & 1]
        if free and hasattr(os, "memfd_create"):
            with contextlib.suppress(OSError, RuntimeError):
                file = os.memfd_create("lockstep-stack")
                fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
                faulthandler.register(free[0], file=file, all_threads=False)
                _stack_offer = (free[0], file)
    return _stack_offer


class _Page:
    """Notes in a page what this rank does, for the parent that watches it: docs/formats/page.md. Notes nothing without one."""

    STARTING, LOADING, COMPUTING, BETWEEN, SAVING, ENDING = 0, 1, 2, 5, 6, 7
    NAMES = ("starting", "loading", "forward", "backward", "update", "validation", "saving", "ending")
    SIZE = 4096
    # The index of each number in the page. The first line counts in 8 bytes, the second in 4 bytes.
    FIRST_SAMPLE, NOTED, SINCE, LOADING_SAMPLE = (each // 8 for each in (40, 224, 296, 304))
    PID, RANK, STACK_SIGNAL, THREAD, STACK_FILE = (each // 4 for each in (8, 12, 312, 316, 848))
    RUN_DIR, RUN_DIR_SIZE = 856, 1024

    def __init__(self, rank):
        self._memory = self._longs = self._ints = None
        self.rank, self.phase, self.step, self._since = rank, self.STARTING, 0, time.monotonic_ns()
        try:
            file = os.open(os.environ["LOCKSTEP_PAGE"], os.O_RDWR | os.O_CLOEXEC)
        except (KeyError, OSError):
            return
        with contextlib.closing(os.fdopen(file, "r+b", buffering=0)) as opened:
            if os.fstat(file).st_size != self.SIZE:
                return
            self._memory = mmap.mmap(opened.fileno(), self.SIZE)
        self._memory[:] = bytes(self.SIZE)
        self._longs, self._ints = (memoryview(self._memory).cast(each) for each in "qi")
        ints = self._ints
        self._longs[self.FIRST_SAMPLE] = self._longs[self.LOADING_SAMPLE] = -1
        self._longs[self.NOTED] = self._longs[self.SINCE] = self._since
        ints[self.PID], ints[self.RANK], ints[self.THREAD] = os.getpid(), rank, threading.get_native_id()
        ints[self.STACK_SIGNAL], ints[self.STACK_FILE] = _offered_stack()
        self._memory[:8] = b"KLPAGE2\0"

    @property
    def has_parent(self):
        return self._memory is not None

    def set_run_dir(self, folder):
        path = os.fsencode(folder)
        if self._memory is not None and 0 < len(path) < self.RUN_DIR_SIZE:
            self._memory[self.RUN_DIR + 1:self.RUN_DIR + len(path)] = path[1:]
            self._memory[self.RUN_DIR:self.RUN_DIR + 1] = path[:1]

    def enter(self, phase, step, clock=time.monotonic_ns):
        now = clock()
        longs = self._longs
        if longs is not None:
            # Byte offsets: 16 changes, 24 phase, 32 step, 56 entered, 224 noted, 232 spent, 296 since. The phase has 4 bytes, the others 8.
            longs[29 + self.phase] += now - self._since
            longs[37] = longs[28] = now
            self._ints[6] = phase
            longs[4] = step
            longs[7 + phase] += 1
            longs[2] += 1
        self.phase, self.step, self._since = phase, step, now

    def answer(self):
        """Returns the answer to `lockstep why` for this rank alone."""
        name, seconds = self.NAMES[self.phase], (time.monotonic_ns() - self._since) / 1e9
        text = "rank %d (process %d on %s): %s of step %d for %.0f s" % (self.rank, os.getpid(), socket.gethostname(), name, self.step, seconds)
        rank = {"rank": self.rank, "host": socket.gethostname(), "pid": os.getpid(), "state": "?", "phase": name, "step": self.step,
                "collective": None, "unchanged_s": seconds, "limit_s": None, "text": text}
        return {"state": "done", "ranks": [rank], "verdict": None}


# ---- requests from other processes: docs/formats/run-folder.md ----


class _Requests:
    """Answers the requests RUN/requests/ID.stop, ID.save and ID.why. A thread of rank 0 looks for them every second."""

    def __init__(self, folder, page):
        self._page = page
        self.folder = os.path.join(folder, "requests")
        told = os.environ.get("LOCKSTEP_RUN_DIR")
        self._parent_answers = page.has_parent and (not told or os.path.realpath(told) == os.path.realpath(folder))
        self.wants_stop = self.wants_save = False
        self._open = {}  # ID: [kind, the step whose snapshot answers it]
        self._newest = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        for name, kind in self._found():
            self._answer(name, kind, {"state": "refused", "reason": "it was left before the run started: ask again"})
        self._thread = threading.Thread(target=self._watch, name="lockstep-requests", daemon=True)
        self._thread.start()

    def _found(self):
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return
        for name in names:
            stem, dot, kind = name.rpartition(".")
            if kind in ("stop", "save", "why") and stem and not stem.startswith("."):
                with contextlib.suppress(OSError):
                    found = os.lstat(os.path.join(self.folder, name))
                    if stat.S_ISREG(found.st_mode) and found.st_uid in (os.geteuid(), 0):
                        yield stem, kind

    def _watch(self):
        while not self._over.wait(1):
            self.look()

    def look(self):
        for name, kind in self._found():
            if kind == "why":
                if self._parent_answers:
                    continue  # The parent answers for all ranks.
                self._answer(name, kind, self._page.answer())
                continue
            with self._lock:
                if name in self._open:
                    continue
                self._open[name] = [kind, None]
                self._answer(name, kind, {"state": "seen"})
                if kind == "stop":
                    self.wants_stop = True
                else:
                    self.wants_save = True

    def begin_save(self, step):
        if not self.wants_save:
            return
        with self._lock:
            self.wants_save = False
            for each in self._open.values():
                if each[0] == "save" and each[1] is None:
                    each[1] = step

    def written(self, step, path):
        with self._lock:
            self._newest = (step, path)
            for name, (kind, wanted) in list(self._open.items()):
                if kind == "save" and wanted is not None and wanted <= step:
                    self._answer(name, kind, self._done())
                    del self._open[name]

    def _done(self):
        step, path = self._newest or (None, None)
        return {"state": "done", "step": step, "snapshot": path}

    def _answer(self, name, kind, answer):
        try:
            _replace_file(os.path.join(self.folder, name + ".json"), json.dumps(dict(answer, schema=1, id=name, request=kind)) + "\n")
            if answer["state"] != "seen":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, name + "." + kind))
        except OSError as error:
            _warn("a request is not answered: %s" % error)

    def close(self):
        self._over.set()
        self._thread.join()
        self.look()
        for name, (kind, wanted) in self._open.items():
            is_kept = kind == "stop" or (self._newest and self._newest[0] >= (wanted or 0))
            self._answer(name, kind, self._done() if is_kept else
                         {"state": "refused", "reason": "the training has ended without another snapshot"})
        self._open = {}


# ---- signals and the clock ----

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class _StopSignals:
    """Notes SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 and lets the program go on. A second SIGINT ends the process at once.

    The workers of a DataLoader ignore these signals (`keep_workers`). Slurm signals them too, and the current step needs them.
    When this process ends, its workers obey signals again, because Python ends them by SIGTERM. Other children always obey.
    """

    def __init__(self):
        self.arrived = 0
        self._pid = os.getpid()
        self._is_closing = mmap.mmap(-1, 1)  # Memory that the workers share.
        self._is_worker = False
        self._before = {}
        if threading.current_thread() is not threading.main_thread():
            _warn("lockstep.start() is called outside the main thread, so signals do not stop the run")
            return
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        atexit.register(self.close)

    def _note(self, number, frame):
        if os.getpid() != self._pid:
            return self._note_in_child(number)
        if number == signal.SIGINT and self.arrived == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        self.arrived = number
        before = self._before.get(number)
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)
        return None

    def _note_in_child(self, number):
        if self._is_worker and self._is_closing[0] == 0:
            return
        if self._is_worker and number == signal.SIGTERM:
            os._exit(0)  # As PyTorch's own handler does: it prints an error for a worker that a signal has killed.
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def keep_workers(self, loader):
        """Makes a loader's workers install `_note` after PyTorch has installed its own handlers, which would end them."""
        for each in _parts(loader):
            if _has_workers(each) and not isinstance(each.worker_init_fn, _WorkerStart):
                each.worker_init_fn = _WorkerStart(each.worker_init_fn, self)

    def begun(self, loader):
        """Returns iter(loader). New workers block signals until they have installed `_note`."""
        if not _has_workers(loader) or not self._before:
            return iter(loader)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            return iter(loader)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def become_worker(self):
        self._is_worker = True
        for number in self._before:
            signal.signal(number, self._note)

    def take_again(self):
        """Installs the handlers again, after another library has installed its own."""
        for number in self._before:
            signal.signal(number, self._note)

    def close(self):
        if os.getpid() != self._pid:
            return
        self._is_closing[0] = 1
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, before if before is not None else signal.SIG_DFL)
        self._before = {}


class _WorkerStart:
    """A worker_init_fn that prepares a worker for signals and then calls the loader's own. A worker that is not forked gets no handler."""

    def __init__(self, init, signals):
        self.init, self.signals = init, signals

    def __call__(self, number):
        if self.signals is not None:
            self.signals.become_worker()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if self.init is not None:
            self.init(number)

    def __reduce__(self):
        return _WorkerStart, (self.init, None)


class _JobClock:
    """Knows when the job's time is up: LOCKSTEP_JOB_END, which job.sh exports, in seconds since 1970."""

    RESERVE_S = 30

    def __init__(self):
        text = os.environ.get("LOCKSTEP_JOB_END", "")
        if text and not (text.isdigit() and int(text) > 0):
            raise Error("LOCKSTEP_JOB_END is '%s', want the job's end in seconds since 1970" % text, "unset it: job.sh exports it")
        # A job end in the past belongs to an earlier job.
        self.end = int(text) if text and int(text) > time.time() else None

    def is_time_to_stop(self, longest_save, longest_step):
        return self.end is not None and self.end - time.time() <= 2 * longest_save + 2 * longest_step + self.RESERVE_S


# ---- metrics.jsonl and TensorBoard's files: docs/formats/run-folder.md ----

_CRC32C = []


def _crc32c(data):
    if not _CRC32C:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
            _CRC32C.append(crc)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked_crc(data):
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def _field(number, content):
    """Returns a field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _event(wall_time, step, rest):
    data = b"\x09" + struct.pack("<d", wall_time) + (b"\x10" + _varint(step) if step else b"") + rest
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _scalars_event(wall_time, step, scalars):
    summary = b""
    for tag, value in scalars.items():
        summary += _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", _single(value)))
    return _event(wall_time, step, _field(5, summary))


def _single(value):
    value = math.nan if value is None else float(value)
    return math.copysign(math.inf, value) if math.isfinite(value) and abs(value) > 3.4028235e38 else value


def _parsed_line(line):
    with contextlib.suppress(ValueError):
        value = json.loads(line)
        if isinstance(value, dict) and type(value.get("step")) is int and isinstance(value.get("event"), str):
            return value
    return None


def _without_repeated(lines):
    """Returns the lines without the validations that a later start has repeated."""
    first_epoch, kept = math.inf, []
    for line in reversed(lines):
        if line["event"] == "validation" and (line.get("epoch") or 0) >= first_epoch:
            continue
        if line["event"] == "run_started" and line.get("first_epoch") is not None:
            first_epoch = min(first_epoch, line["first_epoch"])
        kept.append(line)
    return kept[::-1]


def _finite(value):
    """Returns the value for JSON, in which every number that is not finite is null."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class _Metrics:
    """Writes metrics.jsonl and TensorBoard's event file, on rank 0. The run goes on after `step`, in epoch `first_epoch`."""

    def __init__(self, folder, step, first_epoch):
        self.path = os.path.join(folder, "metrics.jsonl")
        self._file = open(self.path, "ab", buffering=0)
        again = self._cut(step, first_epoch)
        now = time.time()
        names = [name[len("events.out.tfevents."):] for name in os.listdir(folder) if name.startswith("events.out.tfevents.")]
        times = [int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdigit()]
        # TensorBoard reads event files in the order of the times in their names.
        stamp = max([int(now)] + [each + 1 for each in times])
        path = os.path.join(folder, "events.out.tfevents.%d.%s.%d.0" % (stamp, _host(), os.getpid()))
        self._events = open(path, "xb", buffering=0)
        self._events.write(_event(now, 0, _field(3, b"brain.Event:2")))
        # This event, a session start, makes TensorBoard drop that step and later steps from earlier files.
        self._events.write(_event(now, step if again else step + 1, _field(7, b"\x08\x01")))
        for line in again:
            self._events.write(_scalars_event(now, line["step"], self._scalars(line)))

    def _cut(self, step, first_epoch):
        """Removes the lines that the run will write again.

        Returns the "step" lines of `step` if a validation of that step is removed, else []. TensorBoard then drops the whole step, so
        the caller must write its numbers to the new event file.
        """
        with open(self.path, "rb") as file:
            lines = file.read().split(b"\n")
        parsed = [_parsed_line(line) for line in lines]
        if len(lines) > 1 and parsed[0] is None:
            raise Error("'%s' is there, and its first line is not a metrics line of Lockstep" % self.path,
                        "choose another folder, or move that file away")
        def is_again(line):
            return line["event"] == "validation" and (line.get("epoch") or 0) >= first_epoch
        def stays(line):
            return line["step"] <= step and not is_again(line)
        is_good = [line is not None and stays(line) for line in parsed]
        end = max((i + 1 for i, good in enumerate(is_good) if good and parsed[i]["event"] != "snapshot"), default=0)
        late = [lines[i] for i in range(end, len(lines)) if is_good[i]]
        cut = any(line is not None and line["step"] == step and is_again(line) for line in parsed)
        os.ftruncate(self._file.fileno(), sum(len(line) + 1 for line in lines[:end]))
        self._file.write(b"".join(line + b"\n" for line in late))
        return [line for line in parsed[:end] if line and cut and line["event"] == "step" and line["step"] == step]

    @staticmethod
    def _scalars(line):
        known = {"event", "step", "time", "epoch", "step_in_epoch", "loss"}
        scalars = {"train_loss": line["loss"]} if line.get("loss") is not None else {}
        scalars.update((key, value) for key, value in line.items() if key not in known and isinstance(value, (int, float)))
        return scalars

    def write(self, event, step, **values):
        line = dict({"event": event, "step": step, "time": time.time()}, **_finite(values))
        self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def write_step(self, step, values):
        self.write("step", step, **values)
        self._events.write(_scalars_event(time.time(), step, self._scalars(dict(values))))

    def write_validation(self, step, epoch, train_loss, metrics):
        self.write("validation", step, epoch=epoch, samples=None, seconds=None, train_loss=train_loss, metrics=metrics)
        scalars = dict(metrics) if train_loss is None else dict(metrics, epoch_train_loss=train_loss)
        self._events.write(_scalars_event(time.time(), step, scalars))

    def close(self):
        self._file.close()
        self._events.close()


# ---- the order of samples: docs/formats/batches.md ----

_MASK64 = 2**64 - 1


def _step64(z):
    z = (z + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def _mixed(a, b):
    return _step64(_step64(a & _MASK64) ^ (b & _MASK64))


class _EpochOrder:
    """A permutation of 0 ... size - 1 that follows from seed and epoch. Entries are computed on demand, and none is stored."""

    def __init__(self, size, seed, epoch):
        self.size = size
        self.half_bits = 1
        while self.half_bits < 32 and 4 ** self.half_bits < size:
            self.half_bits += 1
        key = _mixed(seed, epoch)
        self._rounds = [_step64((key + each) & _MASK64) for each in range(6)]

    def __getitem__(self, place):
        bits, mask = self.half_bits, 2**self.half_bits - 1
        while True:
            left, right = place >> bits, place & mask
            for key in self._rounds:
                left, right = right, left ^ (_step64(key ^ right) & mask)
            place = left << bits | right
            if place < self.size:
                return place


def _place_of_rank():
    """Returns rank and world size of torch.distributed, or (0, 1) if torch.distributed is not initialised."""
    torch = sys.modules.get("torch")
    if torch and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


class Sampler:
    """Yields batches of sample ids for this rank: `DataLoader(data, batch_sampler=lockstep.Sampler(data, batch=32))`.

    Each epoch has its own order, which follows from `seed` and the epoch. Global batch b is the places [b * global_batch,
    (b + 1) * global_batch) of that order. Each rank takes a contiguous part, and parts differ by at most one sample. No sample is
    padded or repeated. So any number of ranks and workers trains on the same samples, and a run can resume on another number.

    data           the data set, or its number of samples
    batch          samples of one rank in a batch; give this or `global_batch`
    global_batch   samples of all ranks together in a batch
    seed, shuffle  the seed of the order, and True to shuffle at all
    drop_last      True to leave out the last global batch of an epoch if it is short
    rank, world    this rank and the number of ranks; by default those of torch.distributed

    Multiply the loss by `Run.weight`, and each sample has the same weight, whatever its rank. A global batch may have fewer samples
    than there are ranks. A rank without a sample then gets the first sample of the global batch, and its `Run.weight` is 0.

    Raises Error unless exactly one of `batch` and `global_batch` is given, as a number of 1 or more.
    """

    def __init__(self, data, batch=None, global_batch=None, seed=0, shuffle=True, drop_last=False, rank=None, world=None):
        if (batch is None) == (global_batch is None) or (batch or global_batch) < 1:
            raise Error("Sampler got batch=%r and global_batch=%r" % (batch, global_batch),
                        "give one of them, 1 or more: batch is of one rank, global_batch of all ranks")
        self.size = data if isinstance(data, int) else len(data)
        self._batch, self._global_batch, self._placed = batch, global_batch, (rank, world)
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        self.epoch = self.place = 0

    @property
    def world(self):
        return _place_of_rank()[1] if self._placed[1] is None else self._placed[1]

    @property
    def rank(self):
        return _place_of_rank()[0] if self._placed[0] is None else self._placed[0]

    @property
    def global_batch(self):
        return self._global_batch or self._batch * self.world

    def set_epoch(self, epoch):
        self.epoch, self.place = epoch, 0

    def set_place(self, epoch, place):
        """Begins at a place of an epoch's order. The samples before that place were trained on."""
        self.epoch, self.place = epoch, place

    def __len__(self):
        left = max(self.size - self.place, 0)
        return left // self.global_batch if self.drop_last else -(-left // self.global_batch)

    def samples(self, place):
        """Returns the number of samples of the global batch that begins at `place`."""
        return min(self.global_batch, self.size - place)

    def part(self, place):
        """Returns the places of this rank's part of the global batch that begins at `place`. A part may be empty."""
        least, larger = divmod(self.samples(place), self.world)
        begin = place + self.rank * least + min(self.rank, larger)
        return range(begin, begin + least + (1 if self.rank < larger else 0))

    def __iter__(self):
        order = _EpochOrder(self.size, self.seed, self.epoch) if self.shuffle else range(self.size)
        place = self.place
        for _ in range(len(self)):
            yield [order[each] for each in self.part(place) or (place,)]
            place += self.samples(place)


class _WorkerSamples:
    """A data set in a loader's worker, which the user's code may ask for attributes."""

    def __init__(self, data, **own):
        self.__dict__.update(_data=data, **own)

    def __len__(self):
        return len(self._data)

    def __getattr__(self, name):
        if name.startswith("__") or name == "_data":
            raise AttributeError(name)
        return getattr(self._data, name)

    def __setattr__(self, name, value):
        setattr(self._data, name, value)

    @staticmethod
    def _seed_all(seed):
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)
        _torch().default_generator.manual_seed(seed & (2**63 - 1))


class _SeededSamples(_WorkerSamples):
    """The random choices for a sample follow from seed, epoch and sample, whichever worker reads it.

    So a run that resumes in the middle of an epoch makes the same choices, although other workers read the rest of its batches.
    """

    def __getitem__(self, number):
        self._seed_all(_mixed(_mixed(self._seed, int(self._epoch)), number))
        return self._data[number]


class _ReseededSamples(_WorkerSamples):
    """A persistent worker is seeded again at its first sample of a pass. `_now` is shared memory with the pass's number and seed."""

    def _begin(self):
        number, seed = self._now.tolist()
        if number != self._seen:
            self.__dict__["_seen"] = number
            self._seed_all(_mixed(seed, _torch().utils.data.get_worker_info().id))

    def __getitem__(self, number):
        self._begin()
        return self._data[number]

    def __iter__(self):
        self._begin()
        return iter(self._data)

    def __getattr__(self, name):
        if name != "__getitems__":
            return super().__getattr__(name)
        read = self._data.__getitems__  # Only some data sets have it.

        def samples(numbers):
            self._begin()
            return read(numbers)
        return samples


class _PersistentWorkers:
    """The loaders with `persistent_workers=True`. PyTorch seeds their workers once, when the first pass starts them.

    PyTorch draws that seed from the generator that also gives the order of samples. So a pass has another order if workers start
    in it. A resumed run therefore starts the workers before it sets the random states, unless that pass had started them too.
    From a loader's second pass on, workers are seeded again at each pass, because nobody can save their random states.
    """

    def __init__(self):
        self._passes = {}  # By number of the pass: whether its loader had workers, and whether it will have them in the next epoch.
        self._expected = {}  # What a snapshot says of passes that this process has not begun.
        self._shared = weakref.WeakKeyDictionary()  # By loader: the memory that its workers share with this process.

    def packed(self):
        return [[number, had, will] for number, (had, will) in self._passes.items()]

    def restore(self, passes, middle):
        """`middle` is the number of the pass in whose middle the snapshot was written, or None."""
        self._passes = {number: (had, will) for number, had, will in passes}
        self._expected = {number: (had if number == middle else will, will) for number, had, will in passes}

    def open_pass(self, number, loader):
        """Returns True if the loader's workers have to start now, before random states are set."""
        if not _has_persistent_workers(loader):
            return False
        has = getattr(loader, "_iterator", None) is not None
        expected, will = self._expected.pop(number, (False, number not in self._passes))
        had = has or expected
        self._passes[number] = (had, had or will)
        return expected and not has

    def samples(self, loader, sampler, epoch, states):
        """Returns the data set that the workers get of a loader with a `Sampler` or persistent workers. `states` are those of the pass's start."""
        torch, data = _torch(), loader.dataset
        if not _has_persistent_workers(loader):
            return _SeededSamples(data, _seed=sampler.seed, _epoch=epoch)
        if isinstance(data, getattr(torch.utils.data, "IterDataPipe", ())):
            return data  # PyTorch seeds it by its type.
        if loader not in self._shared:
            self._shared[loader] = torch.zeros(2, dtype=torch.int64).share_memory_()
        now = self._shared[loader]
        if sampler:
            now[0] = epoch
            return _SeededSamples(data, _seed=sampler.seed, _epoch=now[0])
        if loader._iterator is not None:
            self._drain(loader._iterator)
            # PyTorch's generators only, because a program that seeds them must get the same choices each time.
            digest = hashlib.blake2b(json.dumps([states["torch"], states["loader"]]).encode(), digest_size=8).digest()
            now[0], now[1] = now[0] + 1, int.from_bytes(digest, "little") >> 1
        return _ReseededSamples(data, _now=now, _seen=0)

    @staticmethod
    def _drain(batches):
        """Waits until workers have read what was ordered for an earlier pass, so that no sample of it takes the new pass's seed."""
        batches._sampler_iter = iter(())
        for _ in range(batches._tasks_outstanding):
            try:
                next(batches)
            except StopIteration:
                return
            except Exception:  # Nobody wants these batches. A worker that is dead is reported by the next pass.
                pass


# ---- ranks ----


def _threads():
    """Returns the state of each thread but the first, and how often it has slept and been interrupted."""
    found = []
    for each in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            if int(each) != os.getpid():
                found.append(re.findall("^State:\t.|ctxt_switches:\t[0-9]+$", _read_text("/proc/self/task/%s/status" % each), re.M))
    return found


def _await_idle_threads(most_s=1):
    """Waits until the other threads of this process are idle. Called as Python begins to end.

    A thread of Gloo drops its tensors some time after its exchange has ended. For a tensor of Python's it takes Python's lock, which it
    gets no more once Python ends: Python ends the thread then, and the process dies by signal 6, "terminate called without an active
    exception" (PyTorch 2.11: TensorImpl::decref_pyobject below ProcessGroupGloo::runLoop).
    """
    limit, before = time.monotonic() + most_s, None
    while time.monotonic() < limit:
        time.sleep(0.002)  # Whoever waits for Python's lock gets it now.
        now = _threads()
        if now == before and all("State:\tS" in each for each in now):
            return
        before = now


class _Ranks:
    """Exchanges values between ranks through a Gloo group of its own. Collective: every rank must make the same calls in the same order."""

    # Ranks add up one integer of 8 bytes. Its lowest 20 bits count the ranks that got a signal. Only rank 0 sets the other bits: one
    # bit for each other flag, and from bit 24 on the number of steps until the next look.
    ASKED_BY_MAIN = {"request": 1 << 20, "job_end": 1 << 21, "save": 1 << 22}
    EVERY = 24
    # A look costs a rank about 0.1 ms. Short steps share one: ranks look about once in 20 ms, and at least once in 8 steps.
    LOOK_S, MOST_STEPS = 0.02, 8

    def __init__(self):
        self.rank, self.world = _place_of_rank()
        self._group = self._pending = None
        self._every = self._left = 1
        self._begun = time.monotonic()
        if self.world > 1:
            self._group = _torch().distributed.new_group(backend="gloo")
            atexit.register(_await_idle_threads)
        elif int(os.environ.get("WORLD_SIZE") or 1) > 1 and os.environ.get("RANK"):
            raise Error("WORLD_SIZE is %s, and torch.distributed is not initialised" % os.environ["WORLD_SIZE"],
                        "call torch.distributed.init_process_group() before lockstep.start(): else each rank would be a run of its own")

    @property
    def is_main(self):
        return self.rank == 0

    def is_due(self):
        """Returns True if this step ends a look and begins the next one. Call it once a step."""
        self._left -= 1
        return self._left <= 0

    def begin(self, flags):
        """Begins to add up the flags of all ranks, and does not wait for the sum."""
        if not self._group:
            self._pending = flags
            return
        torch = _torch()
        number = int("signal" in flags)
        if self.is_main:
            now = time.monotonic()
            step_s = (now - self._begun) / self._every
            self._begun = now
            every = min(self.MOST_STEPS, max(1, int(self.LOOK_S / max(step_s, 1e-9))))
            number += sum(bit for name, bit in self.ASKED_BY_MAIN.items() if name in flags) + (every << self.EVERY)
        total = torch.tensor([number], dtype=torch.int64)
        self._pending = (total, torch.distributed.all_reduce(total, group=self._group, async_op=True))

    def end(self):
        """Returns the flags that any rank had at the last begin(), or an empty set without one. Waits for all ranks to have begun."""
        pending, self._pending = self._pending, None
        self._every = self._left = 1
        if not self._group or pending is None:
            return pending or set()
        total, work = pending
        work.wait()
        number = int(total.item())
        self._every = self._left = number >> self.EVERY
        flags = {name for name, bit in self.ASKED_BY_MAIN.items() if number & bit}
        return flags | {"signal"} if number & 0xFFFFF else flags

    def agree(self, flags):
        """Returns the flags of a pending look and those of this moment. Waits for the slowest rank."""
        earlier = self.end()
        self.begin(flags)
        return earlier | self.end()

    def gather(self, data):
        """Returns the bytes of every rank, in the order of ranks, on rank 0. Returns [] on other ranks."""
        if not self._group:
            return [data]
        torch = _torch()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world)]
        torch.distributed.all_gather(sizes, torch.tensor([len(data)]), group=self._group)
        most = max(int(each) for each in sizes)
        own = torch.frombuffer(bytearray(data.ljust(most)), dtype=torch.uint8)
        parts = [torch.empty(most, dtype=torch.uint8) for _ in range(self.world)] if self.is_main else None
        torch.distributed.gather(own, parts, dst=0, group=self._group)
        return [bytes(_bytes_of(part))[:int(size)] for part, size in zip(parts, sizes)] if self.is_main else []

    def on_rank_zero(self, act):
        """Calls `act` on rank 0 and returns its result, a JSON value, on all ranks. If `act` raises there, all ranks raise."""
        if not self._group:
            return act()
        said, failure = None, None
        if self.is_main:
            try:
                said = {"value": act()}
            except Error as error:
                said, failure = {"error": [error.fact, error.hint]}, error
            except Exception as error:
                said, failure = {"error": ["%s: %s" % (type(error).__name__, error), "rank 0 has the traceback"]}, error
        said = json.loads(self._broadcast(json.dumps(said).encode() if self.is_main else b"").decode())
        if failure:
            raise failure
        if "error" in said:
            raise Error(*said["error"])
        return said["value"]

    def _broadcast(self, data):
        torch = _torch()
        size = torch.tensor([len(data)])
        torch.distributed.broadcast(size, 0, group=self._group)
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8) if self.is_main else torch.empty(int(size), dtype=torch.uint8)
        torch.distributed.broadcast(buffer, 0, group=self._group)
        return bytes(_bytes_of(buffer))

    def all_agree(self, answer):
        """Returns True if `answer` is true on every rank."""
        if not self._group:
            return answer
        torch = _torch()
        least = torch.tensor([int(answer)])
        torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN, group=self._group)
        return bool(least.item())

    def wait_for_all(self):
        if self._group:
            _torch().distributed.barrier(group=self._group)


# ---- random states ----


def _encoded(tensor):
    return base64.b64encode(bytes(_bytes_of(tensor.contiguous()))).decode()


def _decoded(text):
    return _torch().frombuffer(bytearray(base64.b64decode(text)), dtype=_torch().uint8).clone()


def _random_states(loader=None):
    """Returns the random states of this rank as a JSON value: Python's, NumPy's, PyTorch's, the GPU's and the loader's generators'."""
    torch = _torch()
    version, numbers, gauss = random.getstate()
    states = {"python": [version, base64.b64encode(struct.pack("<%dI" % len(numbers), *numbers)).decode(), gauss],
              "torch": _encoded(torch.get_rng_state())}
    if "numpy" in sys.modules:
        name, keys, place, has_gauss, cached = sys.modules["numpy"].random.get_state()
        states["numpy"] = [name, base64.b64encode(keys.astype("<u4").tobytes()).decode(), int(place), int(has_gauss), float(cached)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = _encoded(torch.cuda.get_rng_state())
    states["loader"] = [_encoded(each.get_state()) for each in _generators(loader)]
    return states


def _set_random_states(states):
    torch = _torch()
    version, numbers, gauss = states["python"]
    numbers = base64.b64decode(numbers)
    random.setstate((version, struct.unpack("<%dI" % (len(numbers) // 4), numbers), gauss))
    torch.set_rng_state(_decoded(states["torch"]))
    if "numpy" in states and "numpy" in sys.modules:
        numpy = sys.modules["numpy"]
        name, keys, place, has_gauss, cached = states["numpy"]
        numpy.random.set_state((name, numpy.frombuffer(base64.b64decode(keys), dtype="<u4").astype("u4"), place, has_gauss, cached))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(_decoded(states["cuda"]))


def _set_generators(states, loader):
    """Sets the generators that a loader draws from."""
    if len(_generators(loader)) < len(states["loader"]) and getattr(loader, "batch_sampler", None) is not None:
        next(iter(loader.batch_sampler), None)  # Some samplers create their generator at their first use.
    for generator, state in zip(_generators(loader), states["loader"]):
        generator.set_state(_decoded(state))


def _restore_random(states, loader):
    """Sets the random states of a snapshot, if the snapshot has any."""
    if states:
        _set_generators(states, loader)
        _set_random_states(states)


def _parts(loader):
    """Returns a loader and the samplers and loaders within it. Accelerate wraps both; Fabric, tqdm and timm wrap a loader."""
    found = [loader]
    for owner in found:
        for name in ("base_dataloader", "_dataloader", "iterable", "loader", "batch_sampler", "sampler"):
            part = getattr(owner, name, None)
            if part is not None and not any(part is each for each in found):
                found.append(part)
    return found


def _has_workers(loader):
    return (getattr(loader, "num_workers", 0) or 0) > 0 and hasattr(loader, "worker_init_fn")


def _has_persistent_workers(loader):
    return getattr(loader, "persistent_workers", False)


def _loader_with_workers(loader):
    """Returns the loader within `loader` that starts workers, or None."""
    return next((each for each in reversed(_parts(loader)) if _has_workers(each)), None)


def _generators(loader):
    """Returns each generator that a loader draws from, once. PyTorch's default generator is left out."""
    found = []
    for owner in _parts(loader):
        for generator in (getattr(owner, "generator", None), getattr(owner, "synchronized_generator", None)):
            if hasattr(generator, "get_state") and not any(generator is each for each in found):
                found.append(generator)
    return found


def _set_epoch(loader, epoch):
    for owner in reversed(_parts(loader)):
        if hasattr(owner, "set_epoch"):
            owner.set_epoch(epoch)


def _sampler_of(loader):
    """Returns the `Sampler` that a loader takes its batches from, or None. Raises Error if something else reads it."""
    parts = _parts(loader)
    found = next((each for each in parts if isinstance(each, Sampler)), None)
    if found is None or found is loader:
        return found
    readers = [each for each in parts if getattr(each, "batch_sampler", None) is found and hasattr(each, "dataset")]
    if readers and readers[-1] is loader:
        return found
    if readers:
        raise Error("steps() got a %s around the loader, and lockstep.Sampler has to prepare the loader itself" % type(loader).__name__,
                    "give steps() the loader, without prepare() or setup_dataloaders(), and wrap what it yields: tqdm(run.steps(loader))")
    if any(getattr(each, "sampler", None) is found for each in parts):
        raise Error("the loader takes lockstep.Sampler for a sampler of single samples, and it gives whole batches",
                    "use DataLoader(data, batch_sampler=sampler), without batch_size and sampler")
    raise Error("the batches of lockstep.Sampler are split over ranks once more, by %s" % type(loader.batch_sampler).__name__,
                "leave this loader out of accelerator.prepare(): the sampler gives each rank its part")


def _length(sized):
    try:
        return len(sized)
    except TypeError:
        return None


def _loader_facts(loader, sampler):
    """Returns what must stay the same for an epoch to go on in its middle, as a JSON value."""
    order = {"seed": sampler.seed, "size": sampler.size, "shuffle": sampler.shuffle} if sampler else None
    return {"sampler": order, "batch_size": getattr(loader, "batch_size", None), "data_size": _length(getattr(loader, "dataset", None))}


def _samples_in(batch):
    """Returns the number of samples of a batch, by its first tensor, or 0 if the batch does not tell."""
    for _ in range(8):
        if hasattr(batch, "shape"):
            return int(batch.shape[0]) if len(batch.shape) else 0
        if isinstance(batch, (list, tuple)) and len(batch):
            if not hasattr(batch[0], "shape") and not isinstance(batch[0], (list, tuple, dict)):
                return len(batch)
            batch = batch[0]
        elif isinstance(batch, collections.abc.Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            break
    return 0


# ---- the objects that a snapshot holds ----

_SHARDED = {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine", "XlaFullyShardedDataParallel"}


def _bare(model):
    """Returns the model itself, without the wrappers of DistributedDataParallel, DataParallel and torch.compile."""
    for _ in range(8):
        kind = type(model).__name__
        if kind in ("DistributedDataParallel", "DataParallel") and hasattr(model, "module"):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            break
    return model


def _require_whole_model(model, name):
    for each in model.modules():
        kinds = {base.__name__ for base in type(each).__mro__}
        if kinds & _SHARDED or any(type(p).__name__ == "DTensor" for p in each.parameters(recurse=False)):
            raise Error("%s is sharded over ranks (%s): no rank has all of it, and rank 0 writes snapshots" % (name, type(each).__name__),
                        "use DistributedDataParallel, or torch.distributed.checkpoint for a sharded model")


def _several(value):
    """Returns [(prefix of names, object)]. Object k of several has the prefix k/, as docs/formats/snapshot-format.md says."""
    if isinstance(value, (list, tuple)):
        return [("%d/" % i if len(value) > 1 else "", each) for i, each in enumerate(value)]
    return [("", value)]


class _Objects:
    """The objects that start() was given, by name. Raises Error for one without state_dict() and load_state_dict()."""

    def __init__(self, objects):
        self.all = {name: value for name, value in objects.items() if value is not None}
        for name, value in self.all.items():
            for _, each in _several(value):
                if not hasattr(each, "state_dict") or not hasattr(each, "load_state_dict"):
                    raise Error("start() got %s=%s, which has no state_dict() and load_state_dict()" % (name, type(each).__name__),
                                "give objects that have both; put plain values into run.state")
        for _, model in _several(self.all.get("model", [])):
            _require_whole_model(model, "model")

    def _names_of_parameters(self):
        names = {}
        for prefix, model in _several(self.all.get("model", [])):
            for name, parameter in _bare(model).named_parameters():
                names[id(parameter)] = prefix + name
        return names

    def _optimizer_namer(self, optimizer, prefix):
        names = self._names_of_parameters()
        groups = getattr(optimizer, "param_groups", [])
        numbered = [names.get(id(each)) for group in groups for each in group["params"]]

        def name(path):
            if len(path) > 3 and path[1] == "state" and type(path[2]) is int and path[2] < len(numbered) and numbered[path[2]]:
                return prefix + ".".join([numbered[path[2]]] + [str(each) for each in path[3:]])
            return prefix + ".".join(str(each) for each in path[1:])
        return name

    def packed(self):
        """Returns ({name of object: JSON of each}, {file: {name of tensor: tensor}})."""
        trees, files = {}, {_MODEL: {}, _OPTIMIZER: {}, _EXTENSIONS: {}}
        for name, value in self.all.items():
            trees[name] = []
            for prefix, each in _several(value):
                tree, file, tensors = self._packed_one(name, prefix, each)
                trees[name].append(tree)
                files[file].update(tensors)
        return trees, files

    def _packed_one(self, name, prefix, each):
        if name == "model":
            packer = _Packer(lambda path: prefix + path[1])
            state = _bare(each).state_dict()
            # A model's tensors need no JSON, since their names say all. JSON holds other entries, such as those of get_extra_state().
            tree = packer.pack(dict(state), (name,))
            rest = {key: value for key, value in tree.items() if not (isinstance(value, dict) and "$tensor" in value)}
            return rest, _MODEL, packer.tensors
        if name == "optimizer":
            packer = _Packer(self._optimizer_namer(each, prefix))
            return packer.pack(each.state_dict(), (name,)), _OPTIMIZER, packer.tensors
        packer = _Packer(lambda path: name + "." + prefix + ".".join(str(part) for part in path[1:]))
        target = _bare(each) if hasattr(each, "parameters") else each
        return packer.pack(target.state_dict(), (name,)), _EXTENSIONS, packer.tensors

    def restore(self, trees, folder):
        missing, unknown = sorted(set(self.all) - set(trees)), sorted(set(trees) - set(self.all))
        if missing or unknown:
            raise Error("%s holds %s, and start() got %s" % (folder, ", ".join(sorted(trees)) or "nothing", ", ".join(sorted(self.all)) or "nothing"),
                        "give start() the same objects, or begin anew with resume=\"none\"")
        files = {file: _read_tensors(os.path.join(folder, file)) for file in (_MODEL, _OPTIMIZER, _EXTENSIONS)}
        for name, value in self.all.items():
            several = _several(value)
            if len(several) != len(trees[name]):
                raise Error("%s holds %d of '%s', and start() got %d" % (folder, len(trees[name]), name, len(several)),
                            "give start() the same objects, or begin anew with resume=\"none\"")
            for (prefix, each), tree in zip(several, trees[name]):
                if name == "model":
                    self._restore_model(_bare(each), tree, prefix, files[_MODEL], folder)
                else:
                    self._restore_other(name, each, tree, files[_OPTIMIZER if name == "optimizer" else _EXTENSIONS], folder)

    @staticmethod
    def _restore_model(model, tree, prefix, tensors, folder):
        live = model.state_dict()
        own = {name[len(prefix):]: each for name, each in tensors.items() if name.startswith(prefix)}
        fact = _misfit({name: each for name, each in live.items() if hasattr(each, "shape")}, own)
        if fact:
            raise Error("%s does not fit the model: %s" % (folder, fact), "start with the model that wrote it, or anew with resume=\"none\" or another folder")
        own.update(_unpacked(tree, tensors, live))
        model.load_state_dict(own)

    @staticmethod
    def _restore_other(name, target, tree, tensors, folder):
        target = _bare(target) if hasattr(target, "parameters") else target
        try:
            target.load_state_dict(_unpacked(tree, tensors, target.state_dict()))
        except (ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
            if isinstance(error, Error):
                raise
            raise Error("%s does not fit the %s: %s" % (folder, name, error),
                        "start with the objects that wrote it, or anew with resume=\"none\" or another folder") from error


def _misfit(live, saved):
    """Returns how saved tensors differ from those of a model, in words, or None if they fit."""
    lacking, further = sorted(set(live) - set(saved)), sorted(set(saved) - set(live))
    if lacking:
        return "it lacks '%s'%s" % (lacking[0], ", and has '%s' instead" % further[0] if further else "")
    if further:
        return "it has '%s', which the model has not" % further[0]
    for name, tensor in live.items():
        if tuple(tensor.shape) != tuple(saved[name].shape):
            return "'%s' is %s, want %s" % (name, list(saved[name].shape), list(tensor.shape))
        if tensor.dtype != saved[name].dtype:
            return "'%s' is %s, want %s" % (name, saved[name].dtype, tensor.dtype)
    return None


class _Buckets:
    """The buckets in which DistributedDataParallel sums gradients.

    After its first step each process fills them anew, in the order in which the gradients came. The bits of a sum of three ranks or
    more depend on its place in a bucket. So a snapshot holds this order, and a resumed process has the same buckets in its first step.
    """

    def __init__(self, ranks, models):
        self._ranks, self._wanted = ranks, []
        self._set(models)

    def _set(self, models):
        self._models = [self._ddp_of(each) for each in models]
        self._orders = [None] * len(self._models)

    @staticmethod
    def _ddp_of(model):
        """Returns the DistributedDataParallel of a model if it fills its buckets anew, or None."""
        model = getattr(model, "_orig_mod", model)
        private = ("reducer", "logger", "_get_ddp_logging_data", "_set_ddp_runtime_logging_sample_rate", "parameters_to_ignore")
        if type(model).__name__ != "DistributedDataParallel" or not all(hasattr(model, each) for each in private):
            return None
        # With these, it keeps its buckets, or one backward pass of ours is more to it than a sum.
        others = ("find_unused_parameters", "static_graph", "mixed_precision", "_use_python_reducer", "_delay_all_reduce_params")
        is_plain = not any(getattr(model, each, None) for each in others) and not model._get_ddp_logging_data().get("comm_hook")
        return model if is_plain else None

    @staticmethod
    def _told_order(model):
        text = model._get_ddp_logging_data().get("rebuilt_per_bucket_param_indices", "")
        return [int(each) for each in re.findall("[0-9]+", text)]

    def orders(self):
        """Returns the order of each model's parameters, or None for a model that has none. Collective."""
        for place, model in enumerate(self._models):
            if model is None or self._orders[place]:
                continue
            model.reducer._rebuild_buckets()  # Else the next forward pass does it.
            model._set_ddp_runtime_logging_sample_rate(1)
            model.logger.set_runtime_stats_and_log()
            model._set_ddp_runtime_logging_sample_rate(100)  # PyTorch's own.
            self._orders[place] = self._told_order(model) or None
        return self._orders

    def restore(self, orders):
        """Fills the buckets in these orders, before the first step of this process. Collective."""
        self._wanted = orders or []
        for place, (model, order) in enumerate(zip(self._models, self._wanted)):
            if model is None or not order:
                continue
            parameters = [each for name, each in model.module.named_parameters()
                          if each.requires_grad and name not in model.parameters_to_ignore]
            if self._ranks.all_agree(self._may_fill(model, parameters, order)) and not model.reducer._rebuild_buckets():
                self._fill(model, parameters, order)
                self._orders[place] = order

    def take_over(self, models):
        """Does the same for models that were wrapped after restore(). Collective."""
        self._set(models)
        self.restore(self._wanted)

    def _may_fill(self, model, parameters, order):
        is_hooked = any(each._backward_hooks or getattr(each, "_post_accumulate_grad_hooks", None) for each in parameters)
        is_sparse = any(getattr(each, "sparse", False) for each in model.modules())
        return sorted(order) == list(range(len(parameters))) and not is_hooked and not is_sparse and not self._told_order(model)

    @staticmethod
    def _fill(model, parameters, order):
        """Lets gradients of zero come in this order."""
        torch = _torch()
        kept = [each.grad for each in parameters]
        for each in parameters:
            each.grad = None
        model.reducer.prepare_for_backward([])
        for place in order:
            torch.autograd.backward(parameters[place], torch.zeros_like(parameters[place]))
        for each, gradient in zip(parameters, kept):
            each.grad = gradient
        model.reducer._rebuild_buckets()


# ---- saves that go on behind the training ----


class _Saver:
    """Writes snapshots on rank 0. The training's thread copies the tensors, and another thread writes the copy. One save at a time."""

    def __init__(self, snapshots, keep):
        self.snapshots, self.keep = snapshots, keep
        self.longest = 0.0
        self._copies = {}
        self._thread = self._end = self._reserving = None

    def reserve(self, files):
        """Allocates memory for the copies while training goes on. The first touch of a memory page costs more than the copy."""
        def work():
            for file, tensors in files.items():
                for name, tensor in tensors.items():
                    self._copy_of(file, name, tensor).zero_()
        self._reserving = threading.Thread(target=work, name="lockstep-reserve")
        self._reserving.start()

    def _copy_of(self, file, name, tensor):
        """Returns memory for the copy of a tensor, which is the same in each save."""
        copy = self._copies.get((file, name))
        if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
            copy = _torch().empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda")
            self._copies[file, name] = copy
        return copy

    def begin(self, step, state, files, is_best):
        began = time.monotonic()
        contents, event = self._copied(files)
        end = {"step": step, "epoch": state["epoch"], "path": None, "bytes": 0, "error": None, "blocked": 0.0}

        def work():
            try:
                if event is not None:
                    event.synchronize()
                parts = {file: _safetensors_parts(tensors) for file, tensors in contents.items()}
                parts[_STATE] = [json.dumps(state, allow_nan=False, separators=(",", ":")).encode()]
                end["path"], end["bytes"] = _write_snapshot(self.snapshots, step, parts)
                if is_best:
                    _mark_best(self.snapshots, os.path.basename(end["path"]))
                _prune(self.snapshots, self.keep)
            except BaseException as error:  # The training's thread reports it, in `_Saves.tell`.
                end["error"] = error
            end["took"] = time.monotonic() - began
        self._end = end
        self._thread = threading.Thread(target=work, name="lockstep-save")
        self._thread.start()
        end["blocked"] = time.monotonic() - began

    def _copied(self, files):
        """Copies tensors into memory that is kept from save to save. Copies from a GPU run in its stream and are not waited for.

        Returns ({file: {name: copy}}, the CUDA event after the last copy, or None without a GPU).
        """
        torch = _torch()
        if self._reserving:
            self._reserving.join()
            self._reserving = None
        event, contents = None, {}
        for file, tensors in files.items():
            contents[file] = {}
            for name, tensor in tensors.items():
                is_cpu = tensor.device.type == "cpu"
                copy = self._copy_of(file, name, tensor)
                with torch.no_grad():
                    copy.copy_(tensor.detach(), non_blocking=tensor.device.type == "cuda")
                contents[file][name] = copy
                if not is_cpu and tensor.device.type == "cuda":
                    event = torch.cuda.Event()
                    event.record()
        return {file: tensors for file, tensors in contents.items() if tensors or file != _EXTENSIONS}, event

    def ended(self):
        """Returns how the last save ended, once for each save. Returns None while it is in flight, and without one."""
        return None if self._thread is None or self._thread.is_alive() else self.wait()

    def wait(self):
        if self._thread is None:
            return None
        self._thread.join()
        self._thread, end = None, self._end
        if end["error"] is None:
            self.longest = max(self.longest, end["took"])
        return end


# ---- the run ----

_END = object()
_current = None


def _script_name():
    stem = pathlib.Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "run").stem
    return re.sub(r"[^A-Za-z0-9._+-]", "-", stem) or "run"


def _default_folder():
    """Returns $LOCKSTEP_RUN_DIR, which a job sets. Without it, a folder below runs/ with the names of script and Slurm job."""
    if os.environ.get("LOCKSTEP_RUN_DIR"):
        return os.environ["LOCKSTEP_RUN_DIR"]
    job = os.environ.get("SLURM_JOB_ID")
    return os.path.join(os.environ.get("LOCKSTEP_RUNS") or "runs", _script_name() + ("-" + job if job else ""))


def _checked_options(options):
    for name in ("every_steps", "every_epochs", "keep", "log_every"):
        value = options[name]
        if value is not None and (type(value) is not int or value < 1):
            raise Error("%s is %r, want a whole number of 1 or more" % (name, value), "leave it out for the default")
    if options["every_minutes"] is not None and not options["every_minutes"] > 0:
        raise Error("every_minutes is %r, want more than 0" % (options["every_minutes"],), "leave it out to save by epochs and steps alone")
    for name, wanted in (("mode", ("min", "max")), ("on_stop", ("exit", "return"))):
        if options[name] not in wanted:
            raise Error("%s is %r, want one of %s" % (name, options[name], " ".join(wanted)), "leave it out for '%s'" % wanted[0])
    return options


_At = collections.namedtuple("_At", "step epoch samples")  # The place of a run: updates, complete epochs and samples so far.


class _Folder:
    """The run folder, on rank 0. Takes the run's lock, writes layout.json and chooses the snapshot to resume from."""

    def __init__(self, path, resume, world):
        self.path, self.snapshots = path, os.path.join(path, "snapshots")
        self._resume, self._world, self._lock = resume, world, None

    def take(self):
        try:
            _make_durable_folder(self.snapshots)
            os.makedirs(os.path.join(self.path, "logs"), exist_ok=True)
            self._lock = _RunLock(self.path)
            _remove_temporaries(self.snapshots, of_all=True)
            if self._resume == "none":
                self.put_aside(-1)
            self._write_layout()
        except OSError as error:
            raise Error("the run folder '%s' cannot be made: %s" % (self.path, error), "give start() a folder that you may write to") from error

    def close(self):
        """Releases the run's lock, so that another start can take the folder."""
        if self._lock is not None:
            self._lock.close()

    def _write_layout(self):
        env = os.environ
        local_world = int(env.get("LOCAL_WORLD_SIZE") or self._world)
        place = {"rank": 0, "world": self._world, "local_rank": 0, "local_world": local_world,
                 "node_rank": 0, "nodes": max(self._world // local_world, 1), "device": None,
                 "source": "torch.distributed" if self._world > 1 else "single", "hosts": [_host()], "job": env.get("SLURM_JOB_ID"),
                 "restart": int(env.get("SLURM_RESTART_COUNT") or 0), "master": None}
        path = os.path.join(self.path, "layout.json")
        if not (os.path.exists(path) and os.path.exists(os.path.join(self.path, "job.json"))):
            _replace_file(path, json.dumps(place, indent=1) + "\n")

    def put_aside(self, step):
        """Moves the snapshots after `step`, or the whole run if `step` is -1, into a new folder abandoned-TIME of the run folder."""
        later = [path for each, path in _listed_snapshots(self.snapshots) if each > step]
        metrics = os.path.join(self.path, "metrics.jsonl")
        if not later and not (step < 0 and os.path.exists(metrics)):
            return
        aside = self._new_folder_aside()
        if step < 0:
            # Links are moved first. If this start is killed meanwhile, no old link can name a snapshot of the new run.
            links = [os.path.join(self.snapshots, name) for name in ("best", "latest", "run-id")]
            events = [os.path.join(self.path, name) for name in os.listdir(self.path) if name.startswith("events.out.tfevents.")]
            later = links + later + events + [metrics, os.path.join(self.path, "result.json")]
        elif os.path.exists(metrics):
            shutil.copy2(metrics, aside)
        for path in later:
            if os.path.lexists(path):
                os.rename(path, os.path.join(aside, os.path.basename(path)))
        for name in ("best", "latest"):
            link = os.path.join(self.snapshots, name)
            if os.path.islink(link) and not os.path.exists(link):
                os.rename(link, os.path.join(aside, name))
        _sync_folder(self.path)
        _say("put what was saved before aside in " + aside)

    def _new_folder_aside(self):
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        aside = os.path.join(self.path, "abandoned-" + stamp)
        count = 1
        while os.path.lexists(aside):
            count += 1
            aside = os.path.join(self.path, "abandoned-%s-%d" % (stamp, count))
        os.mkdir(aside)
        return aside

    def chosen(self, is_first):
        """Returns the path of the snapshot to resume from, or None. Only the first call of a run obeys a path in `resume`.

        Raises Error if the snapshot that `resume` names is not whole.
        """
        if is_first and self._resume not in ("auto", "none"):
            path = os.path.realpath(self._resume)
            fault = "; ".join(_snapshot_faults(path)) or _state_fault(path)
            if fault:
                raise Error("%s is not whole: %s" % (path, fault), "resume from another one; `lockstep snapshot ls` shows which are whole")
            return path
        for _, path in reversed(_listed_snapshots(self.snapshots)):
            fault = "; ".join(_snapshot_faults(path)) or _state_fault(path)
            if not fault:
                return path
            _warn("%s is passed over: %s" % (path, fault))
        return None

    def has_taken(self, step):
        """Moves later snapshots aside if `resume` named the snapshot that was taken."""
        if self._resume not in ("auto", "none"):
            self.put_aside(step)


class _Cursor:
    """The place of this rank in its data: the pass, its loader, the batches so far, and the random states of the epoch's start."""

    START = {"pass": 0, "batches": 0, "place": 0, "over": False}

    def __init__(self, ranks):
        self._ranks = ranks
        self.signals = None  # A `_StopSignals`, set by `Run`, which prepares a loader's workers.
        self.position = dict(self.START)
        self.left = None  # The position in the snapshot, until the loop has reached it.
        self.loader = None
        self.weight, self.is_update_due = 1.0, True
        # The random states where `epochs` began the epoch, where the pass began, and where it ended.
        self._begin_random = self._epoch_random = self._over_random = None
        self._passes = 0
        self._workers = _PersistentWorkers()

    # -- in a snapshot --

    def now(self):
        """Returns the random states to save, by name, as bytes of JSON."""
        loader = self.loader["object"] if self.loader else None
        now = self._over_random if self.position["over"] and self._over_random else _random_states(loader)
        states = {"random": now, "epoch_random": self._epoch_random, "begin_random": self._begin_random}
        return json.dumps(states, separators=(",", ":")).encode()

    def packed(self):
        loader, sampler = (self.loader["object"], self.loader["sampler"]) if self.loader else (None, None)
        return dict(self.position, world=self._ranks.world, loader=_loader_facts(loader, sampler), workers=self._workers.packed())

    def restore(self, position, extensions, world):
        self.position = {key: position[key] for key in self.START}
        self._passes = 0

        def own(name):
            tensor = extensions.get("%s.%d" % (name, self._ranks.rank))
            # With another number of ranks, each rank keeps the random states that the program has set.
            return json.loads(bytes(_bytes_of(tensor)).decode()) if tensor is not None and world == self._ranks.world else None
        self.left = dict(position, random=own("random"), epoch_random=own("epoch_random"), begin_random=own("begin_random"))
        is_middle = position["batches"] > 0 and not position["over"]
        self._workers.restore(position.get("workers", []), position["pass"] if is_middle else None)
        self._begin_random = None
        self._set_begin()

    def _set_begin(self):
        """Sets the random states for what the program does from here to its first pass, as in the run that wrote the snapshot."""
        states = self.left["begin_random"] if self.position != self.START else None
        states = states or self.left["random"]
        if states:
            _set_random_states(states)

    # -- in the loops --

    def begin_epoch(self):
        if self.left:
            self._set_begin()
        self._begin_random = _random_states()

    def end_epoch(self):
        self.position = dict(self.START)
        self._passes, self.left, self._over_random = 0, None, None

    def is_left(self, loader, accumulate):
        """Notes the loader of the next pass. Returns False if a snapshot says that the pass is over."""
        self.loader = {"object": loader, "sampler": _sampler_of(loader), "total": _length(loader), "accumulate": accumulate, "index": 0}
        number, self._passes = self._passes, self._passes + 1
        if self.left and number < self.left["pass"]:
            return False
        if accumulate > 1 and self.loader["total"] is None:
            raise Error("accumulate is %d, and the loader has no length: nobody knows which batch ends the last step" % accumulate,
                        "give a loader with a length, or accumulate=1")
        return True

    def open_pass(self, epoch):
        """Returns an iterator over the remaining batches of the loader, or None if a snapshot says that none remain."""
        loader, sampler = self.loader["object"], self.loader["sampler"]
        left, self.left = self.left, None
        self.signals.keep_workers(loader)
        is_over = left is not None and left["over"]
        if not is_over and self._workers.open_pass(self._passes - 1, _loader_with_workers(loader)):
            self._start_workers(loader, sampler, epoch)
        if left is not None and left["batches"] > 0:
            return self._reopened(loader, sampler, left, epoch)
        if left and left["random"] and self._begin_random:
            _set_generators(left["random"], loader)  # `begin_epoch` has set the others, and the program may have drawn from them.
        elif left:
            _restore_random(left["random"], loader)
        self.position = dict(self.START)
        self.position["pass"] = self._passes - 1
        self._over_random = None
        self._epoch_random = _random_states(loader)
        _set_epoch(loader, epoch)
        self.loader["total"] = _length(loader)
        return self._begun(loader, sampler, epoch)

    def _start_workers(self, loader, sampler, epoch):
        states = _random_states(loader)
        batches = self._begun(loader, sampler, epoch)
        if _loader_with_workers(loader) is not loader:
            next(batches, None)  # A wrapper may start the loader at its first batch.
        _restore_random(states, loader)

    def _begun(self, loader, sampler, epoch):
        """Returns iter(loader), whose workers are seeded by sample with a `Sampler`, and by pass if they are persistent."""
        if _loader_with_workers(loader) is not loader or not (sampler or _has_persistent_workers(loader)):
            return self.signals.begun(loader)
        data = loader.dataset
        # A DataLoader refuses a plain assignment. Its workers get the data set that it has while they start.
        object.__setattr__(loader, "dataset", self._workers.samples(loader, sampler, epoch, self._epoch_random))
        try:
            return self.signals.begun(loader)
        finally:
            object.__setattr__(loader, "dataset", data)

    def _reopened(self, loader, sampler, left, epoch):
        self._require_same_loader(loader, sampler, left)
        self._epoch_random = left["epoch_random"]
        if left["over"]:
            _restore_random(left["random"], loader)
            self.close_pass()
            return None
        _restore_random(left["epoch_random"], loader)
        _set_epoch(loader, epoch)
        self.loader["total"] = _length(loader)
        if sampler:
            sampler.set_place(epoch, left["place"])
            self.loader["total"] = _length(loader)
            batches = self._begun(loader, sampler, epoch)
        else:
            batches = self._skipped(loader, left["batches"], epoch)
        _restore_random(left["random"], loader)
        return batches

    def _skipped(self, loader, count, epoch):
        if self._ranks.is_main:
            _say("reads %d batches of the epoch once more, which were trained on; lockstep.Sampler needs no such reading" % count)
        batches = self._begun(loader, None, epoch)
        for i in range(count):
            if next(batches, _END) is _END:
                raise Error("the loader ends after %d batches, and the snapshot was written after %d of this epoch" % (i, count),
                            "go on with the data that the snapshot was written with, or begin anew with resume=\"none\"")
        self.loader["index"] = count
        return batches

    def _require_same_loader(self, loader, sampler, left):
        """Raises Error if the loader's order may differ from the one of a snapshot in the middle of an epoch."""
        now, was = _loader_facts(loader, sampler), left["loader"]
        way_out = "go on with the same loader, or begin anew with resume=\"none\""
        if (was["sampler"] is None) != (now["sampler"] is None):
            raise Error("the snapshot was written %s lockstep.Sampler, and the loader has %s" %
                        (("without", "one") if was["sampler"] is None else ("with", "none")), way_out)
        if was["sampler"] and was["sampler"] != now["sampler"]:
            raise Error("the snapshot's order of samples is %s, and the loader's is %s" % (json.dumps(was["sampler"]), json.dumps(now["sampler"])), way_out)
        if not was["sampler"] and left["world"] != self._ranks.world:
            raise Error("the snapshot was written in the middle of an epoch by %d ranks, and there are %d" % (left["world"], self._ranks.world),
                        "use lockstep.Sampler as the loader's batch_sampler, or start %d ranks" % left["world"])
        for key in ("batch_size", "data_size"):
            if not was["sampler"] and was[key] != now[key]:
                raise Error("the snapshot was written in the middle of an epoch with a %s of %s, and the loader has %s" %
                            (key.replace("_", " "), was[key], now[key]), way_out)

    def begin_batch(self, batch):
        loader, sampler = self.loader, self.loader["sampler"]
        if sampler:
            place, count = self.position["place"], sampler.samples(self.position["place"])
            self.weight = len(sampler.part(place)) * sampler.world / count
            loader["samples"], loader["place"] = count, place + count
        else:
            self.weight, loader["samples"] = 1.0, _samples_in(batch) * self._ranks.world
        at = loader["index"] + 1
        self.is_update_due = at % loader["accumulate"] == 0 or at == loader["total"]

    def end_batch(self):
        """Counts a batch. Returns its number of samples over all ranks."""
        loader, position = self.loader, self.position
        loader["index"] += 1
        position["batches"] += 1
        position["place"] = loader.get("place", 0)
        position["over"] = loader["index"] == loader["total"]
        return loader["samples"]

    def close_pass(self):
        self.position["over"] = True
        self._over_random = _random_states(self.loader["object"])

    def step_in_epoch(self):
        return -(-self.position["batches"] // (self.loader["accumulate"] if self.loader else 1))

    # -- in a loop that another library drives --

    def take_over(self, loader, accumulate, total):
        """Sets the random states of the epoch's start. Returns the number of its batches that were trained on, and the states after them.

        `total` is the number of the epoch's batches. If all were trained on, the next epoch starts.
        """
        self.loader = {"object": loader, "sampler": None, "total": None, "accumulate": accumulate, "index": 0, "samples": 0}
        left, self.left = self.left, None
        count = left["batches"] if left and left["batches"] < total else 0
        if count:
            self._require_same_loader(loader, None, left)
        if left:
            _restore_random(left["epoch_random"] if count else left["random"], loader)
        self._epoch_random = left["epoch_random"] if count else _random_states(loader)
        return count, left["random"] if left else None

    def note_epoch_start(self):
        self._epoch_random = _random_states(self.loader["object"])


class _Stops:
    """Decides when the run stops or saves, by what this rank asks for and what all ranks have agreed on."""

    def __init__(self, ranks, every_minutes):
        self._ranks, self._every_minutes, self._clock = ranks, every_minutes, _JobClock()
        self.signals = self.requests = self.saver = None  # Requests and saver exist on rank 0 only.
        self.wants_best = False  # True if the current state is the best so far and is not saved yet.
        self.longest_step, self.seconds_in_steps = None, 0.0
        self.last_step = self.last_save = time.monotonic()
        self._is_due = False

    def close(self):
        for each in (self.requests, self.signals):
            if each is not None:
                each.close()

    def count_step(self):
        now = time.monotonic()
        seconds, self.last_step = now - self.last_step, now
        self.longest_step = max(self.longest_step or 0.0, seconds)
        self.seconds_in_steps += seconds

    def flags(self):
        """Returns the flags of what this rank asks for now."""
        flags = set()
        if self.signals.arrived:
            flags.add("signal")
        if not self._ranks.is_main:
            return flags
        if self.requests.wants_stop:
            flags.add("request")
        # Every start trains at least one step, however late. A job that only started and stopped would be requeued for ever.
        if self.longest_step is not None and self._clock.is_time_to_stop(self.saver.longest, self.longest_step):
            flags.add("job_end")
        every = self._every_minutes
        if self.requests.wants_save or self.wants_best or (every and time.monotonic() - self.last_save >= 60 * every):
            flags.add("save")
        return flags

    def look(self):
        """Returns the flags that the ranks agreed on since the last look. Call it once a step, and `ask` after it. Collective."""
        self._is_due = self._ranks.is_due()
        return self._ranks.end() if self._is_due else ()

    def ask(self):
        """Begins the next look if `look` has just ended one. Collective."""
        if self._is_due:
            self._ranks.begin(self.flags())

    def agree(self):
        """Returns the flags of all ranks at this moment, and waits for the slowest rank. Collective."""
        return self._ranks.agree(self.flags())

    @staticmethod
    def reason(agreed):
        """Returns why the run must stop, or None if it goes on."""
        return next((each for each in ("signal", "request", "job_end") if each in agreed), None)


class _Records:
    """Keeps the numbers of a run on rank 0: logged values, metrics.jsonl, TensorBoard's file, the best value and result.json."""

    def __init__(self, folder, ranks, objects, options):
        self._folder, self._ranks, self._objects, self._options = folder, ranks, objects, options
        self.seen = {}
        self.metrics = None  # A `_Metrics`, once `begin` has been called.
        self._best = None
        self._logged, self._epoch_loss, self._line_samples = {}, [0.0, 0], 0
        self._first_samples, self._time_to_first_step = 0, None
        self._began = self.last_line = time.monotonic()
        self._has_warned = False

    def restore(self, state, extensions):
        own = state["python"]
        self._best = _unpacked(own["best"], {})
        self.seen = dict(state["metrics"])
        logged = _unpacked(own["logged"], extensions)
        self._logged, self._epoch_loss, self._line_samples = logged["sums"], logged["epoch_loss"], logged["samples"]
        self._first_samples = state["samples"]

    def packed(self, packer):
        logged = {"sums": self._logged, "epoch_loss": self._epoch_loss, "samples": self._line_samples}
        return packer.pack(self._best, ("best",)), packer.pack(logged, ("logged",))

    def begin(self, at, loader, epochs, resumed_from):
        """Opens metrics.jsonl and writes "run_started", at the first call only. `loader` is that of a `_Cursor`, or None."""
        if not self._ranks.is_main or self.metrics:
            return
        self.metrics = _Metrics(self._folder, at.step, at.epoch)
        # The run goes on, so an earlier result is not final any more.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "result.json"))
        parameters = sum(each.numel() for _, model in _several(self._objects.all.get("model", [])) for each in model.parameters())
        facts = {"host": _host(), "torch": _torch().__version__, "python": sys.version.split()[0], "writer": "lockstep.py"}
        self.metrics.write("run_started", at.step, name=os.path.basename(self._folder), world=self._ranks.world, epochs=epochs,
                           parameters=parameters, first_epoch=at.epoch, resumed_from=resumed_from, facts=facts,
                           **self._sizes(loader or {"object": None, "sampler": None, "accumulate": 1}, epochs))

    def _sizes(self, loader, epochs):
        sampler, accumulate, total = loader["sampler"], loader["accumulate"], _length(loader["object"])
        batch = -(-sampler.global_batch // sampler.world) if sampler else getattr(loader["object"], "batch_size", None)
        per_epoch = -(-total // accumulate) if total else None
        global_batch = sampler.global_batch * accumulate if sampler else batch * accumulate * self._ranks.world if batch else None
        return {"steps_per_epoch": per_epoch, "steps_total": per_epoch * epochs if per_epoch and epochs else None,
                "batch": batch * accumulate if batch else None, "global_batch": global_batch}

    def begin_epoch(self):
        self._epoch_loss = [0.0, 0]

    def count(self, samples):
        self._line_samples += samples

    def count_first_step(self):
        self._time_to_first_step = time.monotonic() - self._began

    def add(self, values):
        """Adds the numbers of a step to the means over `log_every` steps."""
        for name, value in values.items():
            total = self._logged.setdefault(name, [0.0, 0])
            value = value.detach().double() if hasattr(value, "detach") else float(value)
            total[0], total[1] = total[0] + value, total[1] + 1
            if name == "loss":
                self._epoch_loss[0], self._epoch_loss[1] = self._epoch_loss[0] + value, self._epoch_loss[1] + 1

    def write_validation(self, step, epoch, values):
        """Writes numbers at once. Returns True if the monitored number is the best so far."""
        values = {name: float(value) for name, value in values.items()}
        self.seen.update(values)
        mean = float(self._epoch_loss[0]) / self._epoch_loss[1] if self._epoch_loss[1] else None
        self.metrics.write_validation(step, epoch, mean, values)
        value = values.get(self._options["monitor"]) if self._options["monitor"] else None
        if value is None or not math.isfinite(value):
            return False
        if self._best is None or (value > self._best if self._options["mode"] == "max" else value < self._best):
            self._best = value
            return True
        return False

    def is_line_due(self, step):
        return step % self._options["log_every"] == 0 and bool(self._logged) and self._ranks.is_main

    def write_line(self, at, step_in_epoch):
        now = time.monotonic()
        values = {name: float(total) / max(count, 1) for name, (total, count) in self._logged.items()}
        values.setdefault("loss", None)
        optimizer = _several(self._objects.all.get("optimizer", []))
        groups = getattr(optimizer[0][1], "param_groups", None) if optimizer else None
        line = {"epoch": at.epoch, "step_in_epoch": step_in_epoch, "loss": values.pop("loss"),
                "learning_rate": float(groups[0]["lr"]) if groups else None, "samples_per_second": self._line_samples / max(now - self.last_line, 1e-9)}
        line.update(values)
        self.seen.update({"train_loss": line["loss"]})
        self.metrics.write_step(at.step, line)
        self._logged, self._line_samples, self.last_line = {}, 0, now

    def write_snapshot(self, end):
        if self.metrics:
            self.metrics.write("snapshot", end["step"], epoch=end["epoch"], snapshot=os.path.basename(end["path"]), bytes=end["bytes"],
                               seconds=end["blocked"])

    def warn_of_late(self, values):
        if not self._has_warned:
            _warn("the run has ended, so %s is not kept: log it before the last epoch's end" % ", ".join(values))
        self._has_warned = True

    def end(self, at, stopped_by, resumed_from, seconds_in_steps):
        seconds = time.monotonic() - self._began
        if self.metrics:
            self.metrics.write("run_ended", at.step, epochs=at.epoch, samples=at.samples, stopped_by=stopped_by, seconds=seconds,
                               samples_per_second=(at.samples - self._first_samples) / max(seconds_in_steps, 1e-9), time_to_first_step_s=self._time_to_first_step,
                               metrics=self.seen)
            self.metrics.close()
        path = os.path.join(self._folder, "result.json")
        if stopped_by != "max_epochs" or (os.path.exists(path) and not self.metrics):
            return
        # result.json says that the run is finished, as for `lockstep train`.
        result = {"schema": 1, "run_dir": self._folder, "world": self._ranks.world, "epochs": at.epoch, "steps": at.step, "samples": at.samples,
                  "train_loss": self.seen.get("train_loss"), "val_loss": self.seen.get("val_loss"), "val_accuracy": self.seen.get("val_accuracy"),
                  "resumed_from": resumed_from, "stopped_by": stopped_by}
        _replace_file(path, json.dumps(_finite(result)) + "\n")


class _Saves:
    """Decides what a snapshot holds, begins the saves, and reports the end of each to requests and metrics."""

    def __init__(self, ranks, objects, cursor, records, stops):
        self._ranks, self._objects, self._cursor, self._records, self._stops = ranks, objects, cursor, records, stops
        self.buckets = _Buckets(ranks, [model for _, model in _several(objects.all.get("model", []))])
        self.saver = self._snapshots = None  # On rank 0 only.
        self.saved = None  # The `place` of the newest snapshot, from the moment its save begins.
        self._newest, self._has_failed = None, False

    def open(self, snapshots, keep):
        """Sets the folder to write into, on rank 0."""
        self._snapshots, self.saver = snapshots, _Saver(snapshots, keep)

    def place(self, at):
        position = self._cursor.position
        return (at.step, at.epoch, position["pass"], position["batches"], position["over"])

    def save(self, at, own_state):
        """Begins to write a snapshot, which goes on behind the training. Collective."""
        stops = self._stops
        stops.last_save = time.monotonic()
        is_best, stops.wants_best = stops.wants_best, False
        if self.saved == self.place(at):
            if self._ranks.is_main:
                self._save_again(is_best)
            return
        ranks, orders = self._ranks.gather(self._cursor.now()), self.buckets.orders()
        if self._ranks.is_main:
            self.tell(self.saver.wait())
            stops.requests.begin_save(at.step)
            state, files = self._content(at, own_state, ranks, orders)
            self.saver.begin(at.step, state, files, is_best)
        self.saved = self.place(at)

    def _save_again(self, is_best):
        """Handles the save of a state that is saved already, or is being saved. Rank 0 only."""
        self._stops.requests.begin_save(self.saved[0])
        self.tell(self.saver.wait())
        if self._newest:
            self._stops.requests.written(*self._newest)
            if is_best:
                _mark_best(self._snapshots, os.path.basename(self._newest[1]))

    def _content(self, at, own_state, ranks, orders):
        torch = _torch()
        trees, files = self._objects.packed()
        for rank, data in enumerate(ranks):
            for name, states in json.loads(data.decode()).items():
                if states:
                    files[_EXTENSIONS]["%s.%d" % (name, rank)] = torch.frombuffer(bytearray(json.dumps(states).encode()), dtype=torch.uint8)
        packer = _Packer(lambda path: "run." + ".".join(str(each) for each in path))
        best, logged = self._records.packed(packer)
        own = {"objects": trees, "position": self._cursor.packed(), "bucket_orders": orders, "best": best, "logged": logged,
               "state": packer.pack(own_state, ("run.state",))}
        files[_EXTENSIONS].update(packer.tensors)
        return {"schema": 1, "writer": "lockstep.py", "step": at.step, "epoch": at.epoch, "place": self._cursor.position["place"],
                "samples": at.samples, "world": self._ranks.world, "metrics": _finite(dict(self._records.seen)), "python": own}, files

    def check_room(self):
        """Raises Error if the disk has no room for a snapshot, and reserves memory for its copy. On rank 0, after the first step."""
        _, files = self._objects.packed()
        _require_room(self._snapshots, sum(each.numel() * each.element_size() for tensors in files.values() for each in tensors.values()))
        self.saver.reserve(files)

    def tell(self, end):
        """Reports how a save ended, on rank 0. `end` is what `_Saver.wait` returns."""
        if end is None:
            return
        self._has_failed = end["error"] is not None
        if self._has_failed:
            if not isinstance(end["error"], (OSError, Error)):
                raise end["error"]
            _warn("no snapshot of step %d was written: %s; the next save tries again" % (end["step"], end["error"]))
            return
        self._newest = (end["step"], end["path"])
        self._stops.requests.written(*self._newest)
        self._records.write_snapshot(end)

    def settle(self, at, own_state):
        """Waits until the last save is on disk, and tries a failed save once more. Raises Error if both fail. Collective."""
        def ended():
            self.tell(self.saver.wait())
            return self._has_failed
        if not self._ranks.on_rank_zero(ended):
            return
        self.saved = None
        self.save(at, own_state)
        if self._ranks.on_rank_zero(ended):
            raise Error("the last snapshot, of step %d, was not written" % at.step,
                        "free some space; what was saved before is untouched, and the next start goes on from there")


class Run:
    """A run that `start` has begun. Methods that say "Collective" must be called by every rank, in the same order.

    step           updates so far
    epoch          complete epochs so far
    samples        samples of all ranks so far
    state          a dict of the program's own plain values, which snapshots hold too
    weight         the number to multiply the loss by, if the loader has a `Sampler`
    is_update_due  True if the current batch is the last one of its step
    stopped_by     why the run ended: "max_epochs", "signal", "request", "job_end" or "program"; None before its end
    resumed_from   path of the snapshot that the run resumed from, or None
    folder         path of the run folder
    phases         seconds spent in each `phase`, by name
    """

    def __init__(self, objects, folder, options):
        self.options = _checked_options(options)
        self.step = self.epoch = self.samples = 0
        self.state = {}
        self.weight = 1.0
        self.is_update_due = True
        self.stopped_by = self.resumed_from = None
        self.phases = collections.Counter()
        self._objects = _Objects(objects)
        self._in_step = self._in_loop = self._is_over = self._is_save_due = False
        self._first_step, self._epochs = 0, None
        self._ranks = _Ranks()
        self._page = _Page(self._ranks.rank)
        self._objects.packed()  # Raises Error now, not at the first save, for an object that cannot be saved.
        self._stops = _Stops(self._ranks, options["every_minutes"])
        self.folder = self._ranks.on_rank_zero(lambda: os.path.abspath(folder or _default_folder()))
        self._page.set_run_dir(self.folder)
        self._folder = _Folder(self.folder, options["resume"], self._ranks.world)
        self._cursor = _Cursor(self._ranks)
        self._records = _Records(self.folder, self._ranks, self._objects, options)
        self._saves = _Saves(self._ranks, self._objects, self._cursor, self._records, self._stops)
        try:
            self._ranks.on_rank_zero(self._open)
            self._stops.signals = self._cursor.signals = _StopSignals()
            self.load()
        except BaseException:
            self._give_up()
            raise
        self._stops.last_save = self._stops.last_step = self._records.last_line = time.monotonic()

    def _open(self):
        """Takes the run folder and opens its saves and requests, on rank 0."""
        self._folder.take()
        self._saves.open(self._folder.snapshots, self.options["keep"])
        self._stops.saver, self._stops.requests = self._saves.saver, _Requests(self.folder, self._page)

    def _give_up(self):
        """Stops listening for signals and requests, and releases the folder to another start."""
        self._stops.close()
        self._folder.close()

    def _at(self):
        return _At(self.step, self.epoch, self.samples)

    # -- resuming from a snapshot --

    def load(self):
        """Restores all objects from the newest snapshot that is whole. Collective.

        Returns the path of the snapshot, or None if there is none. Raises Error if the snapshot does not fit the objects.
        """
        if self._ranks.is_main:
            self._saves.tell(self._saves.saver.wait())
        self._ranks.end()
        path = self._ranks.on_rank_zero(lambda: self._folder.chosen(self.resumed_from is None))
        if path is None:
            return None
        with open(os.path.join(path, _STATE), encoding="utf-8") as file:
            state = json.load(file)
        own = state["python"]
        self._objects.restore(own["objects"], path)
        extensions = _read_tensors(os.path.join(path, _EXTENSIONS))
        self.step, self.epoch, self.samples = state["step"], state["epoch"], state["samples"]
        self._first_step = self.step
        self.state = _unpacked(own["state"], extensions)
        self._records.restore(state, extensions)
        self._cursor.restore(own["position"], extensions, state["world"])
        self._saves.buckets.restore(own.get("bucket_orders"))
        self.resumed_from, self._saves.saved = path, self._saves.place(self._at())
        if self._ranks.is_main:
            self._folder.has_taken(self.step)
            _say("goes on from %s: epoch %d, step %d" % (path, self.epoch, self.step))
        return path

    # -- the loops --

    def epochs(self, count):
        """Yields the number of each epoch that is left of 0 ... `count` - 1, and ends the run after the last one. Collective."""
        self._epochs = count
        if self.epoch >= count and self.resumed_from and self._ranks.is_main:
            _say("%s has its %d epochs: nothing is left to do; another folder or resume=\"none\" begins anew" % (self.folder, count))
        while self.epoch < count and not self.stopped_by:
            self._cursor.begin_epoch()
            yield self.epoch
            if not self.stopped_by:
                self._end_epoch(self.epoch + 1 >= count)
        if not self.stopped_by:
            self.finish("max_epochs")

    def steps(self, loader, accumulate=1):
        """Yields the batches of `loader` that this epoch has still to train on. Collective.

        A step is `accumulate` batches. Update the weights if `is_update_due` is True. Raises Error if a resumed epoch has another loader.
        """
        batches = self._open_pass(loader, accumulate)
        if batches is None:
            return
        try:
            while True:
                self._page.enter(_Page.LOADING, self.step)
                batch = next(batches, _END)
                if batch is _END:
                    break
                self._page.enter(_Page.COMPUTING, self.step)
                self._begin_batch(batch)
                try:
                    yield batch
                except GeneratorExit:  # The caller's loop ended with `break`, so the rest of the epoch is skipped.
                    if not sys.is_finalizing():
                        self.step += self._end_batch()
                        self._close_pass()
                    raise
                if self._end_batch():
                    self._end_step()
                if self.stopped_by:
                    return
        except SystemExit:
            with contextlib.suppress(RuntimeError):
                getattr(batches, "_shutdown_workers", lambda: None)()
            raise
        self._close_pass()

    def _open_pass(self, loader, accumulate):
        """Returns an iterator over the remaining batches of a loader, or None if a snapshot says that none remain."""
        self._in_loop = True
        if not self._cursor.is_left(loader, accumulate):
            return None
        self._records.begin(self._at(), self._cursor.loader, self._epochs, self.resumed_from)
        batches = self._cursor.open_pass(self.epoch)
        if batches is None:
            self._page.enter(_Page.BETWEEN, self.step)
        self._stops.last_step = time.monotonic()
        return batches

    def _begin_batch(self, batch):
        cursor = self._cursor
        cursor.begin_batch(batch)
        self.weight, self.is_update_due = cursor.weight, cursor.is_update_due
        self._in_step = True

    def _end_batch(self):
        """Counts a batch. Returns True if the batch has ended a step."""
        self._in_step = False
        samples = self._cursor.end_batch()
        self.samples += samples
        self._records.count(samples)
        return self.is_update_due

    def _close_pass(self):
        self._page.enter(_Page.BETWEEN, self.step)
        self._cursor.close_pass()

    def _end_step(self, may_leave=True, may_save=True):
        """Counts a step, and saves if that is due. Returns why the run must stop, or None. With `may_leave` a stop ends the run here.

        Without `may_save` it returns None, and what is due is done after a later step.
        """
        stops, records = self._stops, self._records
        self.step += 1
        if stops.longest_step is None:
            records.count_first_step()
        stops.count_step()
        agreed = stops.look()
        if records.is_line_due(self.step):
            records.write_line(self._at(), self._cursor.step_in_epoch())
        if self._ranks.is_main:
            if self.step == self._first_step + 1:
                self._saves.check_room()
            self._saves.tell(self._saves.saver.ended())
        stop = stops.reason(agreed) if may_save else None
        every = self.options["every_steps"]
        self._is_save_due = self._is_save_due or "save" in agreed or bool(every and self.step % every == 0)
        if stop and may_leave:
            self._leave(stop)
            return None
        if stop or (self._is_save_due and may_save):
            self.save()
        stops.ask()
        return stop

    def _end_epoch(self, is_last):
        self.epoch += 1
        self._cursor.end_epoch()
        self._records.begin_epoch()
        self._save_between_epochs(is_last)

    def _save_between_epochs(self, is_last=False):
        """Saves if that is due, and ends the run if it must stop. Collective."""
        agreed = self._stops.agree()
        stop = self._stops.reason(agreed)
        every = self.options["every_epochs"]
        if self._is_save_due or "save" in agreed or is_last or (every and self.epoch % every == 0):
            self.save()
        if stop and not is_last:
            self._leave(stop)

    def should_stop(self):
        """Returns True if the run must stop because of a signal, a request or the job's end. Collective.

        All ranks get True at the same call. In a loop of your own, call it after each update. It counts the step, and writes a snapshot
        if one is due or if the run stops. Within `epochs`, as in a validation, it waits for all ranks, and a stop ends the program.
        """
        if not self._in_loop:
            stop = self._end_step(may_leave=False)
            if stop:
                self.finish(stop)
            return bool(stop)
        stop = self._stops.reason(self._stops.agree())
        if stop:
            self._leave(stop)
        return bool(stop)

    def _leave(self, reason):
        """Saves and ends the run on all ranks. The program then ends with exit code 75, which asks for another start."""
        self.save()
        self.finish(reason)
        if self._ranks.is_main:
            _say("stops at step %d (%s) with a snapshot; the next start goes on from it" % (self.step, reason))
        if self.options["on_stop"] == "exit":
            raise SystemExit(REQUEUE)

    # -- saving and logging --

    def save(self):
        """Begins to write a snapshot of this step, and does not wait for the disk. Collective."""
        self._is_save_due = False
        self._page.enter(_Page.SAVING, self.step)
        self._saves.save(self._at(), self.state)

    def finish(self, stopped_by="program"):
        """Ends the run: writes a last snapshot, waits for it, and writes the end into metrics.jsonl. Collective.

        `epochs` calls it after the last epoch. Call it yourself after a `break`. Raises Error if the snapshot cannot be written.
        """
        global _current
        if self._is_over:
            return
        self._is_over = True
        self.stopped_by = stopped_by
        self._ranks.end()
        self.save()
        self._saves.settle(self._at(), self.state)
        self._ranks.wait_for_all()
        if self._ranks.is_main:
            self._records.end(self._at(), self.stopped_by, self.resumed_from, self._stops.seconds_in_steps)
        self._give_up()
        if _current is self:
            _current = None

    def log(self, **values):
        """Writes numbers into metrics.jsonl and TensorBoard's file. Only the numbers of rank 0 count.

        Within a step, each number is averaged over `log_every` steps. Outside a step, as after a validation, it is written at once.
        """
        if not self._ranks.is_main:
            return
        records = self._records
        if self._is_over:
            records.warn_of_late(values)
            return
        if not records.metrics:
            records.begin(self._at(), None, self._epochs, self.resumed_from)
        if (self._in_step or not self._in_loop) and self.options["monitor"] not in values:
            records.add(values)
        elif records.write_validation(self.step + self._in_step, self.epoch, values):
            self._stops.wants_best = True

    @contextlib.contextmanager
    def phase(self, name):
        """Adds the seconds that the block takes to `phases[name]`: `with run.phase("data"):`."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] += time.monotonic() - began


def _state_fault(snapshot):
    """Returns why a run in Python cannot resume from a snapshot, or None. Raises Error if the C++ trainer wrote it."""
    try:
        state = json.loads(_read_text(os.path.join(snapshot, _STATE)))
        if state["schema"] != 1:
            return "its schema is %r, want 1" % (state["schema"],)
    except (ValueError, KeyError, TypeError):
        return "state.json is no snapshot's state"
    if "python" not in state:
        raise Error("%s was written by the C++ trainer" % snapshot, "go on with `lockstep train`, or give start() another folder")
    return None


def start(model=None, optimizer=None, scheduler=None, scaler=None, ema=None, folder=None, every_steps=None, every_minutes=None,
          every_epochs=1, keep=3, monitor=None, mode="min", log_every=10, resume="auto", on_stop="exit", **objects):
    """Begins a run, or resumes it from its newest snapshot that is whole. Returns the `Run`. Collective: every rank must call it.

    Initialise torch.distributed first. A process can have one run at a time. Raises Error if an argument is wrong, if another live
    run writes in the folder, or if the snapshot does not fit the objects.

    model, optimizer, ...  objects with state_dict() and load_state_dict(), or lists of such objects; others under any name
    folder         the run folder; by default $LOCKSTEP_RUN_DIR, which a job sets, else runs/ and the script's name
    every_steps, every_minutes, every_epochs   how often to write a snapshot; the end of the run always writes one
    keep           number of snapshots to keep, besides the best one
    monitor, mode  the logged number by which a snapshot is the best, and whether "min" or "max" is best
    log_every      steps between two lines in metrics.jsonl
    resume         "auto" for the newest snapshot; "none" to move the old run aside and begin again; or the path of a snapshot
    on_stop        "exit" ends the program with exit code 75 after a stop; "return" ends the loops and sets `stopped_by`
    """
    global _current
    if _current is not None:
        raise Error("lockstep.start() was called before in this process, and that run has not ended",
                    "call start() once; finish() ends a run, if another one is to follow")
    objects = dict({"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "ema": ema}, **objects)
    options = {"every_steps": every_steps, "every_minutes": every_minutes, "every_epochs": every_epochs, "keep": keep, "monitor": monitor,
               "mode": mode, "log_every": log_every, "resume": resume, "on_stop": on_stop}
    _current = run = None
    run = Run(objects, os.fspath(folder) if folder is not None else None, options)
    _current = run
    return run


def _run():
    return _current if _current is not None else start()


def should_stop():
    """Calls `Run.should_stop` of the current run. Begins a run if there is none. Collective."""
    return _run().should_stop()


def save(**objects):
    """Calls `Run.save` of the current run. Without one, it begins a run with these objects: `lockstep.save(model=model)`. Collective."""
    _with(objects).save()


def load(**objects):
    """Returns the path of the snapshot that the run resumed from, or None. Collective.

    Without a run, it begins one with these objects, which restores them: `lockstep.load(model=model)`.
    """
    run = _with(objects)
    return run.resumed_from


def _with(objects):
    if _current is None:
        return start(**objects)
    if objects and {key: id(value) for key, value in objects.items()} != {key: id(value) for key, value in _current._objects.all.items()}:
        raise Error("a run with %s is there already" % (", ".join(_current._objects.all) or "nothing to save"),
                    "give all objects to the first call; or call start() yourself")
    return _current


def log(**values):
    """Calls `Run.log` of the current run. Begins a run if there is none."""
    _run().log(**values)


def phase(name):
    """Calls `Run.phase` of the current run. Does nothing without a run."""
    return _current.phase(name) if _current is not None else contextlib.nullcontext()


# ---- reading a run, without PyTorch ----


class Record:
    """The contents of a run folder as plain values. Raises Error if there is no such folder."""

    def __init__(self, folder):
        self.folder = os.path.abspath(os.fspath(folder))
        if not os.path.isdir(self.folder):
            raise Error("there is no run folder '%s'" % self.folder, "check the spelling; runs lie under $LOCKSTEP_RUNS, else under runs/")

    @property
    def metrics(self):
        """The lines of metrics.jsonl as dicts, without a half-written last line and without what a later start has repeated."""
        text = _read_text(os.path.join(self.folder, "metrics.jsonl"))
        lines = [_parsed_line(line) for line in text[:text.rfind("\n") + 1].split("\n")]
        return _without_repeated([line for line in lines if line is not None])

    @property
    def snapshots(self):
        """A dict for each snapshot, oldest first, with the keys step, path, bytes, is_latest and is_best."""
        folder = os.path.join(self.folder, "snapshots")
        links = {name: os.path.realpath(os.path.join(folder, name)) for name in ("latest", "best")}
        found = []
        for step, path in _listed_snapshots(folder):
            size = sum(os.lstat(os.path.join(path, name)).st_size for name in os.listdir(path))
            found.append({"step": step, "path": path, "bytes": size, "is_latest": links["latest"] == os.path.realpath(path),
                          "is_best": links["best"] == os.path.realpath(path)})
        return found

    def faults(self, snapshot):
        """Reads every byte of a snapshot. Returns a list of its faults, which is empty if the snapshot is whole."""
        return _snapshot_faults(snapshot["path"] if isinstance(snapshot, dict) else os.fspath(snapshot))

    @property
    def layout(self):
        text = _read_text(os.path.join(self.folder, "layout.json"))
        return json.loads(text) if text else None

    def frame(self, event="step"):
        """Returns the lines of one event ("step", "validation" or "snapshot") as rows of a pandas DataFrame. Raises Error without pandas."""
        try:
            import pandas
        except ImportError as error:
            raise Error("pandas is not there: %s" % error, "install it, or use `metrics`, which is a list of dicts") from error
        rows = []
        for line in self.metrics:
            if line["event"] == event:
                rows.append({key: value for key, value in line.items() if not isinstance(value, dict)})
                for value in line.values():
                    rows[-1].update(value if isinstance(value, dict) else {})
        return pandas.DataFrame(rows)


def read(folder):
    """Reads a run folder: `lockstep.read("runs/train").metrics`, `.snapshots`, `.layout`, `.frame()`. Needs no PyTorch."""
    return Record(folder)


# ---- other trainers ----

_LIGHTNING = (2, 6)  # The version whose state this file knows.


class _LightningState:
    """Lightning's own checkpoint, without the weights and without what a resume does not need.

    It also has the last value of each metric, which schedulers and callbacks wait for and Lightning does not save.
    """

    METRICS = "lockstep.callback_metrics"
    LEFT_OUT = ("state_dict", "hyper_parameters", "hparams_name", "hparams_type", "datamodule_hyper_parameters",
                "datamodule_hparams_name", "datamodule_hparams_type")

    def __init__(self, trainer):
        self._connector, self._logged = trainer._checkpoint_connector, trainer._logger_connector

    def state_dict(self):
        state = {key: value for key, value in self._connector.dump_checkpoint(False).items() if key not in self.LEFT_OUT}
        # Trainer.callback_metrics would average values over all ranks, and only rank 0 is here.
        state[self.METRICS] = {name: float(value) for name, value in self._logged._callback_metrics.items()}
        return state

    def load_state_dict(self, state):
        metrics = state.pop(self.METRICS, {})
        self._logged._callback_metrics.update({name: _torch().tensor(value, dtype=_torch().float64) for name, value in metrics.items()})
        # Lightning restores loops, optimizers and schedulers from this attribute right after on_fit_start.
        self._connector._loaded_checkpoint = state
        self._connector.restore_callbacks()


class _LightningHooks:
    """The hooks of Lightning's callback. They call the same methods of a run as `Run.steps` does.

    Snapshots are written after a step, and at the beginning of an epoch. They are not written between a step and the validation
    that follows it, nor where an epoch ends. From a checkpoint of such a moment Lightning resumes without that validation and
    without the steps of the schedulers that wait for it.
    """

    def __init__(self, **options):
        super().__init__()
        self._options, self._run, self._global_step, self._random = options, None, 0, None

    def on_fit_start(self, trainer, pl_module):
        import lightning
        version = tuple(int(each) for each in re.findall("[0-9]+", lightning.__version__)[:2])
        strategy = type(trainer.strategy).__name__
        if any(word in strategy for word in ("FSDP", "DeepSpeed", "ModelParallel")):
            raise Error("Lightning's strategy is %s, which shards the model: rank 0 does not have all of it" % strategy,
                        "use strategy=\"ddp\", or Lightning's own checkpoints")
        objects = {"model": pl_module, "trainer": _LightningState(trainer)}
        if version != _LIGHTNING:
            _warn("Lightning %s is not %d.%d, whose state this version knows: it is stopped in time, and nothing is saved or resumed here; "
                  "use Lightning's ModelCheckpoint" % ((lightning.__version__,) + _LIGHTNING))
            objects = {}
        self._run = start(**dict({"every_epochs": 1}, **dict(self._options, **objects)))

    def on_train_start(self, trainer, pl_module):
        run, loader = self._run, trainer.train_dataloader
        run._stops.signals.take_again()
        run._stops.signals.keep_workers(loader)
        self._global_step = trainer.global_step
        if not self._is_known():
            return
        run._saves.buckets.take_over([trainer.strategy.model])
        fetcher = trainer.fit_loop._data_fetcher
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
        facts = {"object": loader, "sampler": None, "accumulate": trainer.accumulate_grad_batches}
        run._records.begin(run._at(), facts, epochs, run.resumed_from)
        count, random_now = run._cursor.take_over(loader, trainer.accumulate_grad_batches, trainer.num_training_batches)
        if trainer.fit_loop.restarted_on_epoch_start:
            # The loop within the epoch still has the counts of the epoch before. It sets them to zero unless it restarts.
            trainer.fit_loop.epoch_loop.restarting = False
            trainer.fit_loop.epoch_loop.reset_restart_stage()
        _set_epoch(loader, trainer.current_epoch)
        iter(fetcher)  # Once more, now with the random states of the epoch's start.
        for _ in range(count):
            next(fetcher)
        fetcher.fetched -= count  # Lightning adds the skipped batches itself.
        self._random = random_now if count else None
        self._is_first = not trainer.fit_loop.restarted_mid_epoch  # Then Lightning does not call on_train_epoch_start.

    def on_train_epoch_start(self, trainer, pl_module):
        run = self._run
        if not self._is_known():
            return
        is_first, self._is_first = self._is_first, False
        if is_first:
            return
        _set_epoch(run._cursor.loader["object"], trainer.current_epoch)  # Lightning does not know a batch sampler with epochs.
        run._cursor.note_epoch_start()
        run._save_between_epochs()

    def _is_known(self):
        """Returns True if this file knows the state of this version of Lightning."""
        return "trainer" in self._run._objects.all

    def _may_save(self, trainer):
        """Returns False if a validation or the epoch's end follows this step."""
        if not self._is_known():
            return True
        loop = trainer.fit_loop.epoch_loop
        if loop._num_ready_batches_reached():
            return False
        # An interval in seconds ends at another step on each rank, and all ranks have to save after the same step.
        return trainer._val_check_time_interval is not None or not loop._should_check_val_fx(trainer.fit_loop._data_fetcher)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if self._random:
            _restore_random(self._random, self._run._cursor.loader["object"])
            self._random = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        run = self._run
        samples = _samples_in(batch) * run._ranks.world
        run.samples += samples
        run._records.count(samples)
        run._cursor.position["batches"] = batch_idx + 1
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if run._ranks.is_main and loss is not None:
            run.log(loss=loss)
        if trainer.global_step != self._global_step:
            self._global_step = trainer.global_step
            stop = run._end_step(may_leave=False, may_save=self._may_save(trainer))
            if stop:
                self._leave(stop)

    def _leave(self, reason):
        run = self._run
        if not self._is_known():
            run.finish(reason)
            raise SystemExit(REQUEUE)
        run._leave(reason)

    def on_validation_end(self, trainer, pl_module):
        # After the fit, `trainer.validate` and `trainer.test` do not belong to the run.
        if self._run is not None and not self._run._is_over and not trainer.sanity_checking:
            values = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val")}
            self._run._in_loop = True
            if values and self._run._ranks.is_main:
                self._run.log(**values)
            self._run._in_loop = False

    def on_train_epoch_end(self, trainer, pl_module):
        run = self._run
        if not self._is_known():
            return
        run.epoch = trainer.current_epoch + 1
        run._cursor.position = dict(run._cursor.START)
        run._records.begin_epoch()
        waiting = [each.monitor for each in trainer.lr_scheduler_configs if each.reduce_on_plateau]
        if all(name in trainer.callback_metrics for name in waiting):
            # At the end of a resumed epoch, Lightning leaves these schedulers alone, because a checkpoint has no metrics. Here are some.
            trainer.fit_loop._restarting = False

    def on_fit_end(self, trainer, pl_module):
        if self._run is not None:
            self._run.finish("max_epochs")


def Lightning(**options):
    """Returns a callback for Lightning 2.6: `Trainer(callbacks=[lockstep.Lightning()])`. `options` are those of `start`.

    The callback resumes the fit, in the middle of an epoch too, and stops it on all ranks after the same step. Do not give
    `ckpt_path` to the Trainer.
    """
    import lightning.pytorch
    return type("Lightning", (_LightningHooks, lightning.pytorch.Callback), {})(**options)


class _HuggingFaceHooks:
    """The hooks of the callback for transformers.Trainer. They add a MANIFEST to its checkpoints, and stop all ranks after the same step."""

    def __init__(self, **options):
        super().__init__()
        self._options, self._run, self._stop, self._is_save_due = options, None, None, False

    @staticmethod
    def latest(output_dir):
        """Returns the path of Trainer's newest whole checkpoint, or None: `trainer.train(resume_from_checkpoint=...)`."""
        found = []
        for name in os.listdir(output_dir) if os.path.isdir(output_dir) else ():
            match = re.fullmatch("checkpoint-([0-9]+)", name)
            if match:
                found.append((int(match[1]), os.path.join(output_dir, name)))
        for _, path in sorted(found, reverse=True):
            faults = _snapshot_faults(path)
            if not faults:
                return path
            _warn("%s is passed over: %s" % (path, "; ".join(faults)))
        return None

    def on_train_begin(self, args, state, control, model=None, **_):
        if model is not None:
            _require_whole_model(model, "model")
        self._run = start(**dict({"folder": args.output_dir}, **self._options))
        self._run.step = self._run._first_step = state.global_step
        self._run._in_loop = True

    def on_step_end(self, args, state, control, **_):
        self._run.step = state.global_step
        stops = self._run._stops
        stops.count_step()
        agreed = stops.look()
        stop = stops.reason(agreed)
        if stop or "save" in agreed:
            control.should_save = True
        if float(state.epoch or 0).is_integer():
            # After an epoch's last step, Trainer saves first and evaluates then. A resumed run would not evaluate.
            self._is_save_due, control.should_save = control.should_save, False
        elif stop:
            self._stop, control.should_training_stop = stop, True
        stops.ask()
        return control

    def on_epoch_end(self, args, state, control, **_):
        if self._stop:  # In the middle of the epoch, and the checkpoint is written.
            control.should_evaluate = control.should_save = False
            return control
        stop = self._run._stops.reason(self._run._stops.agree())
        if stop and state.global_step < state.max_steps:
            self._stop, control.should_training_stop = stop, True
        if stop or self._is_save_due:
            control.should_save = True
        self._is_save_due = False
        return control

    def on_save(self, args, state, control, **_):
        run = self._run
        run._ranks.wait_for_all()  # Each rank writes files of its own into the checkpoint.
        if run._ranks.is_main:
            requests = run._stops.requests
            requests.begin_save(state.global_step)
            path = os.path.join(args.output_dir, "checkpoint-%d" % state.global_step)
            _seal(path, state.global_step)
            requests.written(state.global_step, path)
        run._stops.last_save = time.monotonic()

    def on_log(self, args, state, control, logs=None, **_):
        run = self._run
        if run is None or run._is_over or not run._ranks.is_main or not logs:
            return
        run._records.begin(run._at(), None, None, run.resumed_from)
        numbers = {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}
        if any(name.startswith("eval_") for name in numbers):
            run._records.metrics.write_validation(state.global_step, int(state.epoch or 0), None, numbers)
        elif "loss" in numbers:
            line = {"epoch": int(state.epoch or 0), "step_in_epoch": None, "loss": numbers["loss"], "learning_rate": numbers.get("learning_rate"),
                    "samples_per_second": None}
            run._records.metrics.write_step(state.global_step, line)

    def on_train_end(self, args, state, control, **_):
        run = self._run
        run.epoch = int(state.epoch or 0)
        run._saves.saved = run._saves.place(run._at())  # Trainer's checkpoint holds this state, so no snapshot is written.
        run.finish(self._stop or "max_epochs")
        if self._stop:
            if run._ranks.is_main:
                _say("stops at step %d (%s); the next start goes on from its checkpoint" % (state.global_step, self._stop))
            raise SystemExit(REQUEUE)


def _seal(path, step):
    """Syncs a folder that another program has written, and lists its files in a MANIFEST."""
    if not os.path.isdir(path):
        return
    files = {}
    for name in sorted(os.listdir(path)):
        file = os.path.join(path, name)
        if name != "MANIFEST" and os.path.isfile(file):
            with open(file, "rb") as opened:
                total, size = 0, 0
                for block in iter(lambda: opened.read(_BLOCK), b""):
                    total, size = zlib.crc32(block, total), size + len(block)
                os.fsync(opened.fileno())
            files[name] = (total, size)
    _replace_file(os.path.join(path, "MANIFEST"), _manifest_text(os.urandom(16).hex(), step, files))
    _sync_folder(path)
    _sync_folder(os.path.dirname(path))


def HuggingFace(**options):
    """Returns a callback for transformers.Trainer, which still writes its own checkpoints. `options` are those of `start`.

        callback = lockstep.HuggingFace()
        trainer = Trainer(model, args, callbacks=[callback], ...)
        trainer.train(resume_from_checkpoint=callback.latest(args.output_dir))
    """
    import transformers
    return type("HuggingFace", (_HuggingFaceHooks, transformers.TrainerCallback), {})(**options)
