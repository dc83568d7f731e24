# SPDX-License-Identifier: Apache-2.0
"""Answers many trainings from one process: importing PyTorch takes longer than training these small modules."""
import json
import os
import sys
import traceback


def serve(trained):
    """Reads JSON, a line each, and writes a line {"answer": trained(it)} or {"error": traceback} for each. Every training runs in a fork,
    so it leaves nothing behind, and nothing but the answers goes to standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                said = {"answer": trained(json.loads(line))}
            except BaseException:
                said = {"error": traceback.format_exc()}
            with os.fdopen(writing, "w") as pipe:
                json.dump(said, pipe)
            sys.stderr.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        print(said or json.dumps({"error": f"the training ended with wait status {status}"}), file=answers, flush=True)
