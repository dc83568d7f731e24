#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`srun lockstep doctor` on a real Slurm: its tasks meet, rank 0 reports for all, and faults of the launch line are found."""
import json
import subprocess
import sys

from bed import Bed, skip_where_impossible

LOCKSTEP = sys.argv[1]
LIMIT_S = 30


def doctor(bed, *flags):
    """The report of a step, and the exit code of srun."""
    done = subprocess.run(["srun", *flags, LOCKSTEP, "doctor", "--json"], env=bed.environment, cwd=bed.folder, text=True,
                          capture_output=True, timeout=LIMIT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1, f"{len(lines)} reports, want rank 0's alone\n{done.stdout}{done.stderr}"
    return json.loads(lines[0]), done.returncode


def codes(report):
    return {finding["code"] for finding in report["findings"]}


def errors(report):
    return {finding["code"] for finding in report["findings"] if finding["severity"] == "error"}


def main():
    skip_where_impossible()
    with Bed() as bed:
        report, code = doctor(bed, "-N4", "--ntasks-per-node=1")
        assert (report["tasks_met"], len(report["links"]), len(report["clocks"])) == (4, 4, 3), report
        assert not errors(report) and code == 0, report
        names = next((f for f in report["findings"] if f["code"] == "network-name-unknown"), None)
        assert names is None or len(names["hosts"]) == 4, "one finding for all nodes that have it"

        report, code = doctor(bed, "-N1", "-n4", "--overcommit", "-c1", "--cpu-bind=map_cpu:0,0,0,0")
        assert {"layout-one-core", "layout-overcommitted"} <= codes(report) and code == 4, report

        # No driver knows the devices of this test cluster. The programs of such a job would run on the CPU.
        report, code = doctor(bed, "-N2", "--ntasks-per-node=1", "--gpus-per-node=2")
        assert "devices-missing" in errors(report) and code == 4, report

        report, code = doctor(bed, "-N2", "--ntasks-per-node=1", "--export=ALL,MASTER_ADDR=localhost")
        assert "variable-main-is-local" in errors(report), report
    print("4 launch lines, each with one report")


if __name__ == "__main__":
    main()
