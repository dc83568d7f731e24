# SPDX-License-Identifier: Apache-2.0
"""A worker that iterates over a data set, ahead of the trainer. lockstep/data/source/python_stream.cc is the other side."""
import sys

from lockstep_host import channel


def tell_worker(part, stream, seed):
    """torch.utils.data.get_worker_info() tells a data set its share. It counts the workers of all ranks, since ranks share too."""
    if "torch" not in sys.modules:
        return
    from torch.utils.data._utils import worker
    workers = stream["workers"]
    worker._worker_info = worker.WorkerInfo(id=part.rank * workers + stream["worker"], num_workers=part.world * workers, seed=seed,
                                            dataset=part.data)


def work(part, stream, connection, memory):
    """Lays samples into the slots of `memory`, one after the other. The trainer sends a byte for each that it has taken."""
    slots, count, room = stream["slots"], 0, stream["slots"]
    size = len(memory) // slots
    try:
        number = -3 - ((part.rank * stream["workers"] + stream["worker"]) << 16 | stream["pass"])
        tell_worker(part, stream, channel.seed(stream["seed"], stream["epoch"], number))
        if hasattr(part.data, "set_epoch"):
            part.data.set_epoch(stream["epoch"])
        for sample in part.data:
            laid = part.laid(sample)
            if room == 0:
                if not channel.received(connection, 1):
                    return
                room += 1
            part.write(laid, memory, count % slots * size)
            connection.sendall(channel.LENGTH.pack(0))
            count, room = count + 1, room - 1
        channel.send(connection, {"end": count})
        channel.received(connection, slots + 1)  # Until the trainer has taken the last one, and is gone.
    except (BrokenPipeError, ConnectionResetError):
        return  # The trainer wants no more of this pass.
    except Exception as error:  # The user's code may raise anything.
        channel.send(connection, channel.failure(error))
