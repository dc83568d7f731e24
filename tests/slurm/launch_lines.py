# SPDX-License-Identifier: Apache-2.0
"""Ways to ask Slurm for tasks, cores and devices, and where each rank then is. `where` has a digit for each rank, by rank: the
node that it is on, counted from 1. `sees` says which devices a task is shown: none, its own (index 0), or all (index = local rank).
`says` is what Lockstep refuses the line with. On the test bed: four nodes of eight cores and four devices each."""
import dataclasses
import json
import shlex


@dataclasses.dataclass(frozen=True)
class Line:
    step: str  # PROGRAM stands for the program and its words.
    where: str
    sees: str = "none"
    job: str = ""  # What sbatch or salloc was asked for, with the word itself; none: the step makes its own job.
    says: str = ""

    @property
    def text(self):
        return f"{self.job}: {self.step}" if self.job else self.step

    def places(self):
        """(rank, world, local rank, local world, node rank) of each rank."""
        return [(rank, len(self.where), self.where[:rank].count(node), self.where.count(node), int(node) - 1)
                for rank, node in enumerate(self.where)]

    def devices(self):
        index = {"none": lambda local: None, "own": lambda local: 0, "all": lambda local: local}[self.sees]
        return [index(place[2]) for place in self.places()]

    def run(self, bed, program, folder):
        """What the line writes when it starts `program`; AssertionError with all of it where the line fails."""
        step = self.step.replace("PROGRAM", shlex.join(str(word) for word in program))
        script = f"cd {shlex.quote(str(folder))}; {step}"
        kind, *flags = shlex.split(self.job) or ["srun"]
        if kind == "sbatch":
            return bed.batch(script, *flags)
        if kind == "salloc":
            return bed.run("salloc", "-Q", *flags, "bash", "-c", script)
        return bed.run("bash", "-c", script)


LINES = [
    # How many tasks, and where.
    Line("srun -n1 PROGRAM", "1"),
    Line("srun -n4 PROGRAM", "1111"),
    Line("srun -N2 PROGRAM", "12"),
    Line("srun -N4 PROGRAM", "1234"),
    Line("srun -N2 -n4 PROGRAM", "1112"),
    Line("srun -N2 -n3 PROGRAM", "112"),
    Line("srun -N2 --ntasks-per-node=2 PROGRAM", "1122"),
    Line("srun -N2 -n4 --ntasks-per-node=2 PROGRAM", "1122"),
    Line("srun -N2 -n4 --ntasks-per-socket=2 PROGRAM", "1122"),
    Line("srun -N2 -n5 -m block PROGRAM", "11112"),
    Line("srun -N2 -n4 -m cyclic PROGRAM", "1211"),
    Line("srun -N2 -n6 -m plane=2 PROGRAM", "112111"),
    Line("srun -N1 -n10 -O PROGRAM", "1111111111"),
    Line("srun -w n2,n3 -n4 PROGRAM", "1112"),
    Line("srun -N2 -x n1 -n2 PROGRAM", "12"),
    Line("printf 'n2\\nn1\\nn1\\n' > hosts; SLURM_HOSTFILE=hosts srun -n3 -m arbitrary PROGRAM", "211"),
    Line("srun -n1 PROGRAM : -N2 -n2 PROGRAM", "123"),
    # Cores, memory, names, output.
    Line("srun -N2 -n4 -c2 PROGRAM", "1112"),
    Line("srun -n2 --exclusive PROGRAM", "11"),
    Line("srun -N2 -n4 --cpu-bind=none PROGRAM", "1112"),
    Line("srun -N2 -n4 --mem=1000 PROGRAM", "1112"),
    Line("srun -N2 --ntasks-per-node=2 -J bash PROGRAM", "1122"),
    Line("srun -N2 --ntasks-per-node=2 -J interactive PROGRAM", "1122"),
    Line("srun -u -N2 -n4 -K1 --wait=10 PROGRAM", "1112"),
    Line("srun -N2 -n2 --mpi=none --export=ALL PROGRAM", "12"),
    Line("srun -N2 -n2 --export=NONE PROGRAM", "12"),
    # Devices.
    Line("srun -N1 -n4 --gpus-per-task=1 PROGRAM", "1111", "own"),
    Line("srun -N2 -n8 --gpus-per-task=1 PROGRAM", "11112222", "own"),
    Line("srun -N1 -n2 --gpus-per-task=2 PROGRAM", "11", "own"),
    Line("srun -N1 -n1 --gpus-per-task=4 PROGRAM", "1", "own"),
    Line("srun -G4 --ntasks-per-gpu=1 PROGRAM", "1111", "own"),
    Line("srun -N1 -n4 --gpus=4 --gpu-bind=single:1 PROGRAM", "1111", "own"),
    Line("srun -N1 -n4 --gpus-per-node=4 --gpu-bind=map_gpu:3,2,1,0 PROGRAM", "1111", "own"),
    Line("srun -N1 -n4 --gpus-per-node=4 --gpu-bind=closest PROGRAM", "1111", "all"),
    Line("srun -N2 --ntasks-per-node=4 --gpus-per-node=4 PROGRAM", "11112222", "all"),
    Line("srun -K1 -N2 -n8 --gpus-per-node=4 PROGRAM", "11111112", says="shows 4 devices, want 7 for the 7 ranks of this node"),
    Line("srun -N2 --ntasks-per-node=4 --gres=gpu:4 PROGRAM", "11112222", "all"),
    Line("srun -N1 -n2 --gpus=4 PROGRAM", "11", "all"),
    Line("srun -N2 -n2 --gpus-per-node=4 PROGRAM", "12", "all"),
    Line("srun -n2 --gpus-per-task=1 PROGRAM : -n2 --gpus-per-task=1 PROGRAM", "1122", "own"),
    Line("srun -N1 -n4 --gpus-per-node=2 PROGRAM", "1111", says="shows 2 devices, want 4 for the 4 ranks of this node"),
    # Inside a job.
    Line("srun PROGRAM", "1122", job="sbatch -N2 --ntasks-per-node=2"),
    Line("srun PROGRAM", "11112222", "all", job="sbatch -N2 --ntasks-per-node=4 --gpus-per-node=4"),
    Line("srun PROGRAM", "1112", "own", job="sbatch -N2 -n4 --gpus-per-task=1"),
    Line("srun -c4 PROGRAM", "12", job="sbatch -N2 -n2 -c4"),
    Line("srun -N1 -n2 PROGRAM", "11", job="sbatch -N2 -n4"),
    Line("srun -N2 -n4 -r1 PROGRAM", "1122", job="sbatch -N4 --ntasks-per-node=2"),
    Line("srun PROGRAM", "12", job="sbatch -N2 -n2 --array=3"),
    Line("srun PROGRAM", "1111", job="sbatch -N1 -n4 -J bash"),
    Line("srun --overlap PROGRAM", "1122", job="sbatch -N2 -n4 --exclusive"),
    Line("PROGRAM", "1", job="sbatch -N2 -n4"),
    Line("srun PROGRAM", "1112", job="salloc -N2 -n4"),
    Line("srun PROGRAM", "12", "all", job="salloc -N2 -n2 --gpus-per-node=2"),
    Line("srun true; srun PROGRAM", "111222", job="salloc -N2 --ntasks-per-node=3"),
    Line("PROGRAM", "1", job="salloc -N2 -n4"),
]

# Lines are so short that Slurm does not mix the lines of several tasks.
SAY = """import json, os
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT SLURMD_NODENAME".split()
print(json.dumps({"told": {name: os.environ.get(name) for name in names}}), flush=True)
"""


def lockstep_program(lockstep, python):
    """What a line is tried with: `layout` and `exec` in one start. say.py lies in the current folder."""
    return ["/bin/sh", "-c", f'"{lockstep}" layout --json && exec "{lockstep}" exec --no-agent -- {python} say.py']


def objects(output):
    """The JSON objects that lines begin with, one for each rank. With `srun -u` two may come before the line's end of either."""
    decoder, found = json.JSONDecoder(), []
    for line in output.splitlines():
        while line.startswith("{"):
            each, end = decoder.raw_decode(line)
            found.append(each)
            line = line[end:]
    return found


def told_by_exec(output):
    """What exec told the ranks, by rank."""
    return sorted((each["told"] for each in objects(output) if "told" in each), key=lambda env: int(env["RANK"]))


def check(case, line, output):
    """That layout and exec said of every rank what `line` wants, with the assertions of the TestCase `case`."""
    found = sorted((at for at in objects(output) if "rank" in at), key=lambda at: at["rank"])
    names = ("rank", "world", "local_rank", "local_world", "node_rank")
    case.assertEqual([tuple(at[name] for name in names) for at in found], line.places())
    case.assertEqual([at["device"] for at in found], line.devices())
    told = told_by_exec(output)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    case.assertEqual([tuple(int(env[name]) for name in names) for env in told], line.places())
    case.assertEqual(len({(env["NODE_RANK"], env["SLURMD_NODENAME"]) for env in told}), len(set(line.where)))
    case.assertEqual(len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in told}), 1)
    case.assertIn(int(told[0]["MASTER_PORT"]), range(1024, 65536))
