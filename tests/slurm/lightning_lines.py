# SPDX-License-Identifier: Apache-2.0
"""What Lightning makes of the environments that launch lines give their tasks. Reads [[{"nodes", "devices", "env"}, …], …] from
standard input: for each line its ranks, with what a user must say again in Trainer(num_nodes=…, devices=…); prints as much.
Lightning is imported once, and each rank is a fork that has its environment only."""
import json
import logging
import os
import sys
import warnings

from lightning.pytorch import Trainer

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


def rank_of(task):
    os.environ.clear()
    os.environ.update(task["env"])
    try:
        trainer = Trainer(accelerator="cpu", strategy="ddp", num_nodes=task["nodes"], devices=task["devices"], logger=False,
                          enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        strategy = trainer.strategy
        strategy.set_world_ranks()
        return {"RANK": strategy.global_rank, "WORLD_SIZE": strategy.world_size, "LOCAL_RANK": strategy.local_rank,
                "NODE_RANK": strategy.node_rank, "MASTER_PORT": strategy.cluster_environment.main_port}
    except Exception as error:
        return {"refused": str(error)}


def in_a_fork(task):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, json.dumps(rank_of(task)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.wait()
    return json.loads(text)


json.dump([[in_a_fork(task) for task in line] for line in json.load(sys.stdin)], sys.stdout)
