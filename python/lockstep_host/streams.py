# SPDX-License-Identifier: Apache-2.0
"""A worker that iterates over an iterable data set ahead of the trainer. lockstep/data/source/python_stream.cc is the other side."""
import sys

from lockstep_host import channel


def tell_worker(part, stream, seed):
    """Sets what torch.utils.data.get_worker_info() returns, by which a data set finds its share. Workers of all ranks are counted together,
    so that ranks share the data too."""
    if "torch" not in sys.modules:
        return
    from torch.utils.data._utils import worker
    workers = stream["workers"]
    worker._worker_info = worker.WorkerInfo(id=part.rank * workers + stream["worker"], num_workers=part.world * workers, seed=seed,
                                            dataset=part.data)


def work(part, stream, connection, memory):
    """Copies samples into the slots of `memory`, one after the other. The trainer sends a byte for each slot that it has read."""
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
        channel.received(connection, slots + 1)  # Waits until the trainer has read the last sample and closed the socket.
    except (BrokenPipeError, ConnectionResetError):
        return  # The trainer wants no more of this pass.
    except Exception as error:  # The user's code may raise anything.
        channel.send(connection, channel.failure(error))
