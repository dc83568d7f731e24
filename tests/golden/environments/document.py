#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the environments of launchers that were not at hand, as their documentation says, each with its page."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
FLUX = "https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man7/flux-environment.html"
PALS = "https://docs.alcf.anl.gov/polaris/running-jobs/"
LSF = "https://lightning.ai/docs/pytorch/stable/api/pytorch_lightning.plugins.environments.LSFEnvironment.html"
OPENMPI5 = "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html"


def places(nodes):
    world = sum(len(ranks) for ranks in nodes)
    for node_rank, ranks in enumerate(nodes):
        for local_rank, rank in enumerate(ranks):
            yield {"rank": rank, "world": world, "local_rank": local_rank, "local_world": len(ranks),
                   "node_rank": node_rank, "nodes": len(nodes)}


def write(name, command, page, source, nodes, variables, device=lambda place: None):
    ranks = []
    for place in sorted(places(nodes), key=lambda place: place["rank"]):
        environment = {key: str(value) for key, value in variables(place).items()}
        ranks.append({"environment": environment, "expected": {**place, "source": source, "device": device(place)}})
    content = {"command": command, "recorded": False, "page": page, "ranks": ranks}
    (HERE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def flux(place):
    return {"FLUX_JOB_ID": "f3ETxsR9H", "FLUX_JOB_SIZE": place["world"], "FLUX_JOB_NNODES": place["nodes"],
            "FLUX_TASK_RANK": place["rank"], "FLUX_TASK_LOCAL_ID": place["local_rank"], "FLUX_URI": "local:///run/flux/local",
            "PMI_RANK": place["rank"], "PMI_SIZE": place["world"], "PMI_FD": 20}


def flux_within_slurm(place):
    broker = {"SLURM_JOB_ID": 4711, "SLURM_STEP_ID": 0, "SLURM_PROCID": place["node_rank"], "SLURM_LOCALID": 0,
              "SLURM_NODEID": place["node_rank"], "SLURM_NTASKS": place["nodes"], "SLURM_STEP_NUM_TASKS": place["nodes"],
              "SLURM_STEP_TASKS_PER_NODE": f"1(x{place['nodes']})", "SLURM_STEP_NODELIST": f"n[1-{place['nodes']}]"}
    return {**broker, **flux(place)}


def pals(place):
    return {"PALS_APID": "2f8d5a6e", "PALS_RANKID": place["rank"], "PALS_NODEID": place["node_rank"],
            "PALS_LOCAL_RANKID": place["local_rank"], "PALS_LOCAL_SIZE": place["local_world"], "PMI_RANK": place["rank"],
            "PMI_SIZE": place["world"], "PMI_LOCAL_RANK": place["local_rank"], "PMI_LOCAL_SIZE": place["local_world"]}


def jsrun(place):
    return {"LSB_JOBID": 911, "LSB_HOSTS": "batch1 a01 a01", "JSM_NAMESPACE_RANK": place["rank"],
            "JSM_NAMESPACE_SIZE": place["world"], "JSM_NAMESPACE_LOCAL_RANK": place["local_rank"],
            "JSM_NAMESPACE_LOCAL_SIZE": place["local_world"]}


def openmpi5(place):
    return {"OMPI_COMM_WORLD_RANK": place["rank"], "OMPI_COMM_WORLD_SIZE": place["world"],
            "OMPI_COMM_WORLD_LOCAL_RANK": place["local_rank"], "OMPI_COMM_WORLD_LOCAL_SIZE": place["local_world"],
            "OMPI_COMM_WORLD_NODE_RANK": place["local_rank"], "OMPI_UNIVERSE_SIZE": place["world"]}


block, cyclic, uneven = [[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1, 2], [3, 4]]
write("documented-flux-block", "flux run -N2 -n8 DUMP", FLUX, "flux", block, flux)
write("documented-flux-cyclic", "flux run -N2 -n8 --taskmap=cyclic DUMP", FLUX, "flux", cyclic, flux)
write("documented-flux-uneven", "flux run -N2 -n5 DUMP", FLUX, "flux", uneven, flux)
write("documented-flux-gpus", "flux run -N2 -n8 -g1 DUMP", FLUX, "flux", block,
      lambda place: {**flux(place), "CUDA_VISIBLE_DEVICES": place["local_rank"]}, lambda place: 0)
write("documented-flux-within-slurm", "srun -N2 -n2 flux start flux run -N2 -n8 DUMP", FLUX, "flux", block, flux_within_slurm)
write("documented-flux-shell", "flux alloc -N2, then DUMP", FLUX, "single", [[0]], lambda place: {"FLUX_URI": "local:///run/flux/local"})
write("documented-pals", "mpiexec -n 8 --ppn 4 DUMP", PALS, "pmi", block, pals)
write("documented-pals-round-robin", "mpiexec -n 8 --ppn 4 --rankfile DUMP", PALS, "pmi", [[0, 1, 6, 7], [2, 3, 4, 5]], pals)
write("documented-lsf-jsrun", "bsub … jsrun -n8 -r4 -a1 -g1 DUMP", LSF, "lsf", block, jsrun)
write("documented-lsf-jsrun-gpus", "bsub … jsrun -n2 -r1 -a4 -g4 DUMP", LSF, "lsf", block,
      lambda place: {**jsrun(place), "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, lambda place: place["local_rank"])
write("documented-lsf-script", "bsub … DUMP", LSF, "single", [[0]], lambda place: {"LSB_JOBID": 911, "LSB_HOSTS": "a01"})
write("documented-openmpi5", "mpirun -n 8 --map-by ppr:4:node DUMP", OPENMPI5, "openmpi", block, openmpi5)
