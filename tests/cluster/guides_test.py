#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What five sites' guides have a person write, held against what `submit --dry-run` writes: guides_test.py LOCKSTEP [--update]

Each guide's own batch script, and the wrapper that it starts in each task, is listed line by line with what stands for it:
text of our script, or a variable that `lockstep exec` sets in a task of that job. The scripts are kept in
tests/golden/submit; --update writes them anew.
"""
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from scripts import LOCKSTEP, RECIPES, check, dry_run

MASKS = ("0x00fe000000000000,0xfe00000000000000,0x0000000000fe0000,0x00000000fe000000,"
         "0x00000000000000fe,0x000000000000fe00,0x000000fe00000000,0x0000fe0000000000")


class Script:
    """What submit would send to sbatch, and what exec would set in the first task of it."""

    def __init__(self, name, *arguments):
        with tempfile.TemporaryDirectory(prefix="lockstep-guide-") as folder:
            self.folder = os.path.realpath(folder)
            words = [word.replace("RECIPES", str(RECIPES)) for word in arguments]
            done = dry_run(self.folder, "--run-dir", self.folder + "/run", *words, user="atif")
            assert done.returncode == 0, done.stderr
            self.text = done.stdout
            self.variables = self.task_variables({"PATH": os.environ["PATH"], "USER": "atif", "HOME": self.folder})
        check(self.text, self.folder, f"{name}.sbatch")

    def directive(self, flag):
        found = re.search(rf"^#SBATCH {re.escape(flag)}=(.*)$", self.text, re.M)
        return found and found[1]

    def task_variables(self, environment):
        cluster = re.search(r"exec --cluster (\S+)", self.text)[1]
        nodes, tasks = int(self.directive("--nodes")), int(self.directive("--ntasks-per-node"))
        step = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
                "SLURM_NTASKS": nodes * tasks, "SLURM_STEP_NUM_TASKS": nodes * tasks, "SLURM_NNODES": nodes,
                "SLURM_STEP_NUM_NODES": nodes, "SLURM_STEP_NODELIST": f"n[1-{nodes}]" if nodes > 1 else "n1",
                "SLURM_STEP_TASKS_PER_NODE": f"{tasks}(x{nodes})" if nodes > 1 else tasks}
        done = subprocess.run([LOCKSTEP, "exec", "--cluster", cluster, "--run-dir", self.folder + "/task", "--dry-run", "--",
                               "true"], env=environment | {name: str(value) for name, value in step.items()}, text=True,
                              capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])["variables"]


def in_script(text):
    return lambda script: text in script.text


def directive(flag, value):
    return lambda script: script.directive(flag) == value


def in_task(name, pattern=".+"):
    return lambda script: re.fullmatch(pattern, script.variables.get(name, "")) is not None


class Guides(unittest.TestCase):
    maxDiff = None

    def hold(self, script, lines):
        for line, stands_for_it in lines:
            with self.subTest(line=line):
                self.assertTrue(stands_for_it(script), f"nothing stands for '{line}' in\n{script.text}")

    def test_000_five_nodes_of_four_devices_with_conda(self):
        script = Script("guide-000-conda", "--cluster", "crukci-rocm", "--nodes", "5", "--devices", "4", "--time", "0-02:00:00",
                        "--name", "somename", "--conda", "/mnt/scratchc/ralab/software/rocm_gpus",
                        "--", "python", "/mnt/scratchc/ralab/atif/path/train_model_multigpus.py")
        self.hold(script, [
            ("conda activate /mnt/scratchc/ralab/software/rocm_gpus",
             in_script("conda activate /mnt/scratchc/ralab/software/rocm_gpus")),
            ("#SBATCH --job-name=somename", directive("--job-name", "somename")),
            ("#SBATCH --nodes=5", directive("--nodes", "5")),
            ("#SBATCH --gres=gpu:4", directive("--gres", "gpu:4")),
            ("#SBATCH --ntasks-per-node=4", directive("--ntasks-per-node", "4")),
            ("#SBATCH --mem=96g", directive("--mem", "96g")),
            ("#SBATCH --output=/mnt/scratchc/ralab/atif/jobOutputs/somename.out", directive("--output", f"{script.folder}/run/logs/job.log")),
            ("#SBATCH --error=/mnt/scratchc/ralab/atif/jobErrors/somename.err", lambda s: s.directive("--error") is None),
            ("#SBATCH --time=0-02:00:00", directive("--time", "02:00:00")),
            ("#SBATCH --cpus-per-task 10", directive("--cpus-per-task", "10")),
            ("#SBATCH --partition rocm", directive("--partition", "rocm")),
            ("srun python /mnt/scratchc/ralab/atif/path/train_model_multigpus.py",
             in_script('"$program" /mnt/scratchc/ralab/atif/path/train_model_multigpus.py')),
            ("(the cores on srun too)", in_script("srun --cpus-per-task=10")),
        ])

    def test_000_the_same_in_a_container(self):
        image = "pytorch_rocm6.2.3_ubuntu22.04_py3.10_pytorch_release_2.3.0.sif"
        script = Script("guide-000-container", "--cluster", "crukci-rocm", "--nodes", "3", "--devices", "1", "--container", image,
                        "--bind", "/mnt/scratchc/ralab/atif:/mnt", "--", "python", "/mnt/train_model.py")
        self.hold(script, [
            ("singularity exec", in_script("singularity exec\n")),
            ("--bind /mnt/scratchc/ralab/atif:/mnt", in_script("-B /mnt/scratchc/ralab/atif:/mnt\n")),
            (image, in_script(f"/{image}\n")),
            ("(running the image directly will mess up the conda env PATH variables)",
             in_script('CONDA_* | _CE_* | PYTHON* | VIRTUAL_ENV* | LD_LIBRARY_PATH | LD_PRELOAD) unset "$name"')),
            ("(the container's own python, not one of the host)", in_script("program=python\n")),
        ])

    def test_001_two_nodes_of_eight_devices(self):
        script = Script("guide-001", "--cluster", "frontier", "--nodes", "2", "--account", "abc123", "--time", "00:30:00",
                        "--conda", "/path/to/my_env", "--", "/path/to/my_env/bin/python", "pytorch_ddp.py", "2000", "10")
        self.hold(script, [
            ("add your project id", directive("--account", "abc123")),
            ("module load PrgEnv-gnu/8.5.0", in_script("PrgEnv-gnu/")),
            ("module load miniforge3/23.11.0-0", in_script("miniforge3/23.11.0-0")),
            ("module load rocm/6.0.0", in_script("rocm/")),
            ("module load craype-accel-amd-gfx90a", in_script("craype-accel-amd-gfx90a")),
            ("source activate /path/to/my_env", in_script("conda activate /path/to/my_env")),
            ("sbatch --export=NONE pytorch_ddp_job.sl", directive("--export", "NONE")),
            ("(and srun, which would hand on nothing)", in_script("--export=ALL")),
            ("use srun, not torchrun", in_script("srun --cpus-per-task=7")),
            ("two nodes, 16 GPUs", lambda s: (s.directive("--nodes"), s.directive("--ntasks-per-node")) == ("2", "8")),
            ("(each rank on the cores nearest to its GPU)", in_script("--cpu-bind=mask_cpu:" + MASKS)),
            ("(all GPUs of the node, so that cuda:LOCAL_RANK is there)", lambda s: "--gpus-per-task" not in s.text),
            ("always specify the path to python", in_script("program=/path/to/my_env/bin/python")),
            ("the output and error files are in the logs directory", directive("--output", f"{script.folder}/run/logs/job.log")),
            ("WORLD_SIZE", in_task("WORLD_SIZE", "16")),
            ("RANK", in_task("RANK", "0")),
            ("LOCAL_RANK", in_task("LOCAL_RANK", "0")),
            ("MASTER_ADDR", in_task("MASTER_ADDR")),
            ("MASTER_PORT", in_task("MASTER_PORT", r"\d+")),
            ("NCCL_SOCKET_IFNAME", in_script("export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3")),
        ])

    def test_002_one_device(self):
        script = Script("guide-002-one", "--cluster", "juwels-booster", "--nodes", "1", "--devices", "1", "--account", "training2321",
                        "--time", "00:15:00", "--setup", "source ../sc_venv_template/activate.sh", "--", "python3", "one_gpu.py")
        self.hold(script, [
            ("#SBATCH --nodes=1", directive("--nodes", "1")),
            ("#SBATCH --gres=gpu:1", directive("--gres", "gpu:1")),
            ("#SBATCH --ntasks-per-node=1", directive("--ntasks-per-node", "1")),
            ("#SBATCH --mem=0", directive("--mem", "0")),
            ("#SBATCH --time=00:15:00", directive("--time", "00:15:00")),
            ("#SBATCH --partition=booster", directive("--partition", "booster")),
            ("#SBATCH --account=training2321", directive("--account", "training2321")),
            ("source ../sc_venv_template/activate.sh", in_script("source ../sc_venv_template/activate.sh")),
            ("srun python3 one_gpu.py", in_script('"$program" one_gpu.py')),
        ])

    def test_002_four_nodes_of_four_devices(self):
        script = Script("guide-002-ddp", "--cluster", "juwels-booster", "--nodes", "4", "--account", "training2321",
                        "--time", "00:15:00", "--setup", "source ../sc_venv_template/activate.sh", "--", "python3", "ddp.py")
        self.hold(script, [
            ("#SBATCH --nodes=4", directive("--nodes", "4")),
            ("#SBATCH --gres=gpu:4", directive("--gres", "gpu:4")),
            ("#SBATCH --ntasks-per-node=1  # needs to match Trainer(devices=...)", directive("--ntasks-per-node", "4")),
            ("#SBATCH --mem=0", directive("--mem", "0")),
            ("#SBATCH --cpus-per-task=24", directive("--cpus-per-task", "12")),
            ("#SBATCH --time=00:15:00", directive("--time", "00:15:00")),
            ("#SBATCH --partition=booster", directive("--partition", "booster")),
            ("#SBATCH --account=training2321", directive("--account", "training2321")),
            ("#SBATCH --output=%j.out", directive("--output", f"{script.folder}/run/logs/job.log")),
            ("CUDA_VISIBLE_DEVICES=0,1,2,3", in_script("export CUDA_VISIBLE_DEVICES=0,1,2,3")),
            ("source ../sc_venv_template/activate.sh", in_script("source ../sc_venv_template/activate.sh")),
            ("srun python3 ddp.py", in_script('"$program" ddp.py')),
            ("utils.init_distributed_mode(12354)", in_task("MASTER_PORT", r"\d+")),
            ("os.getenv('SLURM_NTASKS')", in_task("WORLD_SIZE", "16")),
        ])

    def test_003_four_nodes_in_a_container(self):
        image = "/project/project_465000001/me/your-container-image.sif"
        script = Script("guide-003", "--cluster", "lumi-g", "--nodes", "4", "--account", "project_465000001", "--time", "00:10:00",
                        "--container", image, "--bind", "/project/project_465000001/me:/workdir", "--setup", "$WITH_CONDA",
                        "--setup", "cd /workdir/mnist", "--", "python", "-u", "mnist_DDP.py", "--gpu", "--modelpath", "model")
        self.hold(script, [
            ("#SBATCH --nodes=4", directive("--nodes", "4")),
            ("#SBATCH --gpus-per-node=8", directive("--gpus-per-node", "8")),
            ("#SBATCH --tasks-per-node=8", directive("--ntasks-per-node", "8")),
            ("#SBATCH --cpus-per-task=7", directive("--cpus-per-task", "7")),
            ('#SBATCH --output="output_%x_%j.txt"', directive("--output", f"{script.folder}/run/logs/job.log")),
            ("#SBATCH --partition=standard-g", directive("--partition", "standard-g")),
            ("#SBATCH --mem=480G", directive("--mem", "480G")),
            ("#SBATCH --time=00:10:00", directive("--time", "00:10:00")),
            ("#SBATCH --account=project_<your_project_id>", directive("--account", "project_465000001")),
            ("srun --cpu-bind=mask_cpu:$MYMASKS", in_script("--cpu-bind=mask_cpu:" + MASKS)),
            ("singularity exec", in_script("singularity exec\n")),
            ("-B /var/spool/slurmd", in_script("-B /var/spool/slurmd\n")),
            ("-B /opt/cray", in_script("-B /opt/cray\n")),
            ("-B /usr/lib64/libcxi.so.1", in_script("-B /usr/lib64/libcxi.so.1\n")),
            ("-B /usr/lib64/libjansson.so.4", in_script("-B /usr/lib64/libjansson.so.4\n")),
            ("-B $PROJECT_DIR:/workdir", in_script("-B /project/project_465000001/me:/workdir\n")),
            ("$CONTAINER", in_script(f"  {image}\n")),
            ("rocm-smi  # make sure GPUs are up", in_script(f"{shlex.quote(LOCKSTEP)} doctor --cluster lumi-g --node")),
            ("MIOPEN_USER_DB_PATH=/tmp/$(whoami)-miopen-cache-$SLURM_NODEID", in_task("MIOPEN_USER_DB_PATH", "/tmp/.*4711.*")),
            ("MIOPEN_CUSTOM_CACHE_DIR=$MIOPEN_USER_DB_PATH", in_task("MIOPEN_CUSTOM_CACHE_DIR", "/tmp/.*4711.*")),
            ("$WITH_CONDA", in_script("\n$WITH_CONDA\n")),
            ("NCCL_DEBUG=INFO  # aws-ofi-rccl is used", in_task("NCCL_DEBUG", "INFO")),
            ("NCCL_DEBUG_SUBSYS=INIT,COLL", in_task("NCCL_DEBUG_SUBSYS", "INIT,.*")),
            ("NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3", in_script("export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3")),
            ("NCCL_NET_GDR_LEVEL=3", in_script("export NCCL_NET_GDR_LEVEL=PHB")),
            ("MASTER_ADDR=$(python get-master.py \"$SLURM_NODELIST\")", in_task("MASTER_ADDR")),
            ("MASTER_PORT=29500", in_task("MASTER_PORT", r"\d+")),
            ("WORLD_SIZE=$SLURM_NPROCS", in_task("WORLD_SIZE", "32")),
            ("RANK=$SLURM_PROCID", in_task("RANK", "0")),
            ("cd mnist", in_script("cd /workdir/mnist")),
            ("python -u mnist_DDP.py --gpu --modelpath model", in_script('"$program" -u mnist_DDP.py --gpu --modelpath model')),
        ])

    def test_003_the_recipe(self):
        script = Script("guide-003-recipe", "RECIPES/mnist.toml", "--cluster", "lumi-g", "--nodes", "4", "--set",
                        "data.path=/scratch/project_465000001/mnist", "--account", "project_465000001", "--time", "00:30:00")
        self.hold(script, [
            ("(a snapshot before the limit)", in_script("LOCKSTEP_JOB_END=$(date -d \"${end:-now + $((1800 - SECONDS)) seconds}\" +%s)")),
            ("(the same job goes on)", in_script('scontrol requeue "$SLURM_JOB_ID"')),
            ("(nodes and tasks as asked for)", in_script("--set cluster.nodes=4")),
        ])

    def test_004_two_devices_of_a_shared_node(self):
        script = Script("guide-004", "--cluster", "lumi-g", "--partition", "small-g", "--nodes", "1", "--devices", "2", "--account",
                        "project_462000956", "--time", "00:30:00", "--", "python", "train_ddp_cifar100.py")
        self.hold(script, [
            ("sbatch run_ddp_cifar100.sh, 2 GPUs", directive("--gpus-per-node", "2")),
            ("(the partition of small jobs)", directive("--partition", "small-g")),
            ("(memory for two of eight)", directive("--mem", "120G")),
            ("(no masks: the node is shared)", lambda s: "mask_cpu" not in s.text),
        ])


if __name__ == "__main__":
    unittest.main(verbosity=2)
