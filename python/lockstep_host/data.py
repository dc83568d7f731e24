# SPDX-License-Identifier: Apache-2.0
"""Serves the samples of a Python data set: PYTHON lockstep_host/data.py, with a socket as file descriptor 3.

lockstep-train starts this process, the server, which imports the user's code and opens the data set once. The server forks a worker
for each thread of the trainer that reads samples, and workers share the server's memory. A worker answers one request after the
other. For each, it reads a sample and lays it into memory that the trainer maps too. A worker ends when the trainer closes its
socket. lockstep/data/source/python_source.cc is the trainer's side. streams.py reads iterable data sets.
"""
import ctypes
import json
import mmap
import os
import signal
import socket
import sys
import warnings

if __name__ == "__main__":  # The user's modules come from the current folder, as with `python -m`.
    sys.path[0] = os.getcwd()
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lockstep_host import channel, loaders, names, streams
from lockstep_host.channel import LENGTH, REQUEST, received, send
from lockstep_host.errors import RECIPE, Refusal
from lockstep_host.parts import Part

PR_SET_PDEATHSIG = 1


def work(part, connection, memory):
    """Answers requests for samples of a map-style data set until the trainer closes `connection`."""
    while True:
        request = received(connection, REQUEST.size)
        if request is None:
            return
        try:
            of_run, epoch, number = REQUEST.unpack(request)
            channel.seed(of_run, epoch, number)
            part.write(part.read(number), memory, 0)
            connection.sendall(LENGTH.pack(0))
        except Exception as error:  # The user's code may raise anything.
            send(connection, channel.failure(error))


class Server:
    def __init__(self, control):
        self.control, self.parts, self.children = control, {}, []

    def open(self, asked):
        """Returns the part of the data that the user's function gives for `split`, or None if the function has no such part."""
        split, name = asked["split"], asked["function"]
        make = names.found(asked["source"], name)
        signature = names.signature_of(make)
        taken, arguments = names.named_parameters_of(signature), dict(asked["arguments"])
        if "split" in taken and "split" not in arguments:
            arguments["split"] = split
        elif "train" in taken and "train" not in arguments:
            if split == "test":
                return None
            arguments["train"] = split == "train"
        elif split != "train":
            return None
        title = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        # A function that takes rank or world gives each rank its own share, so its workers are numbered within this rank.
        shares = {each: asked[each] for each in ("rank", "world") if each in taken and each not in arguments}
        channel.seed(asked["seed"], 0, -1)
        data, collate, init = names.called(name, make, signature, arguments | shares, "data.args"), None, None
        if data is None:
            return None
        if loaders.is_loader(data):
            data, collate, init = loaders.parts_of(name, data)
        if asked["collate"]:
            collate = names.found(asked["collate_source"], asked["collate"])
        part = Part(title, data, collate, init, asked["samples"])
        part.rank, part.world = (0, 1) if shares else (asked["rank"], asked["world"])
        if shares and not part.is_stream:
            raise Refusal(RECIPE, f"{name} takes {' and '.join(shares)}, and gives a map-style data set",
                          "give all ranks the whole set: the trainer shares it out")
        return part

    def answer(self, asked):
        if asked["split"] not in self.parts:
            self.parts[asked["split"]] = self.open(asked)
        part = self.parts[asked["split"]]
        return {"is_there": part is not None, **(part.described() if part else {})}

    def fork(self, asked, connection, memory_file):
        self.children = [each for each in self.children if os.waitpid(each, os.WNOHANG) == (0, 0)]
        with socket.socket(fileno=connection) as own:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self.control.close()
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # A worker that hangs in the user's code ends with the server.
                try:
                    with mmap.mmap(memory_file, 0) as memory:
                        self.serve(asked, own, memory)
                finally:
                    os._exit(0)
            self.children.append(child)
        os.close(memory_file)

    def serve(self, asked, connection, memory):
        """Serves samples as a worker, until the trainer closes `connection`."""
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        part, stream = self.parts[asked["split"]], asked.get("stream")
        try:
            if part.init is not None:
                part.init(stream["worker"] if stream else len(self.children))
        except Exception as error:
            return send(connection, channel.failure(error))
        if stream:
            return streams.work(part, stream, connection, memory)
        return work(part, connection, memory)

    def run(self):
        while True:
            head, files, _, _ = socket.recv_fds(self.control, LENGTH.size, 2)
            if not head:
                return
            head += b"" if len(head) == LENGTH.size else received(self.control, LENGTH.size - len(head))
            asked = json.loads(received(self.control, LENGTH.unpack(head)[0]))
            if files:
                self.fork(asked, *files)
                continue
            try:
                send(self.control, self.answer(asked))
            except Exception as error:
                send(self.control, channel.failure(error))


def main():
    # Slurm and a terminal send signals to all processes, but the trainer alone decides when a run ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout = sys.stderr
    # Python 3.12 warns about a fork while other threads run. A worker computes on one thread, and needs none of their locks.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    try:
        Server(socket.socket(fileno=3)).run()
    except BrokenPipeError:
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
