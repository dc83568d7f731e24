#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Command lines that are nearly right: what `lockstep` says, and what it makes of a word that means two things."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ranks"))
import harness  # noqa: E402


class Usage(harness.RanksTest):
    def said(self, *arguments, code=0):
        result = self.start(*arguments).finish()
        self.assertEqual(result.code, code, result.err + result.out)
        return result

    def test_a_name_given_to_a_command_that_lists_is_pointed_to_the_one_that_shows(self):
        for group, name in (("recipe", "digits"), ("profile", "lumi-g")):
            with self.subTest(group=group):
                err = self.said(group, "ls", name, code=2).err
                self.assertIn(f"unknown argument '{name}'", err)
                self.assertIn(f"hint: `lockstep {group} show {name}` shows it. `lockstep {group} ls --help` shows what there is", err)

    def test_a_builtin_recipe_wins_over_a_folder_of_its_name_and_yields_to_a_file(self):
        (self.folder / "digits").mkdir()
        shown = json.loads(self.said("recipe", "show", "digits", "--json").out)
        self.assertEqual(shown["name"], "digits")
        self.assertEqual(shown["settings"]["trainer.seed"]["value"], 1)
        (self.folder / "digits").rmdir()
        (self.folder / "digits").write_text('[trainer]\nseed = 77\n')
        shown = json.loads(self.said("recipe", "show", "digits", "--json").out)
        self.assertEqual(shown["settings"]["trainer.seed"]["value"], 77)

    def test_an_empty_value_is_refused_and_takes_no_other_word(self):
        for words, fact in ((("submit", "--container=", "--dry-run", "--", "true"), "--container is given an empty value"),
                            (("submit", "--account", "", "--dry-run", "--", "true"), "--account is given an empty value"),
                            (("plan", "digits", "--cluster="), "--cluster is given an empty value"),
                            (("follow", ""), "argument 2 is empty")):
            with self.subTest(words=words):
                err = self.said(*words, code=2).err
                self.assertIn(f"{fact}\n  hint: give it a value, or leave it out", err)
        self.said("submit", "--dry-run", "--", "echo", "", "--name=")

    def test_a_folder_that_its_owner_keeps_private_is_not_called_missing_or_empty(self):
        private = self.folder / "private"
        run = private / "run"
        run.mkdir(parents=True)
        # Root may look everywhere, so these commands run without that right.
        modest = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
        data = ("--set", "data.kind=folder", "--set", f"data.path={run}")
        commands = [("why", run), ("report", run), ("follow", run), ("stop", run), ("monitor", run, "--once"), ("snapshot", "now", run),
                    ("eval", run), ("predict", run), ("data", "info", run), ("doctor", "--run", run),
                    ("train", "digits", "--devices", "1", "--resume", run), ("train", "digits", "--devices", "1", *data)]
        for closed in run, private:
            closed.chmod(0)
            for command in commands:
                with self.subTest(command=command, closed=closed.name):
                    done = subprocess.run([*modest, harness.BIN / "lockstep", *command], cwd=self.folder, text=True, capture_output=True,
                                          check=False)
                    self.assertRegex(done.stderr, rf"'{run}[^']*' failed: Permission denied")
                    self.assertEqual(done.returncode, 6, done.stderr)
            closed.chmod(0o700)

    def test_numbers_of_nodes_leave_the_recipe_behind_them_alone(self):
        script = self.said("scale", "--nodes", "1,2", "digits", "--dry-run").out
        self.assertEqual(re.findall(r"(?m)^#SBATCH --nodes=(\d+)", script), ["1", "2"])
        err = self.said("plan", "--nodes", "0,2", "no-such-recipe", code=2).err
        self.assertIn("--nodes has 0", err)

    def test_lists_stand_in_columns_of_eighty(self):
        for group, names in (("recipe", ["cifar100-resnet50", "frontier-mlp"]), ("profile", ["juwels-booster", "generic"])):
            with self.subTest(group=group):
                lines = self.said(group, "ls").out.splitlines()
                self.assertLessEqual(max(len(line) for line in lines if not re.search(r"\S{46}", line)), 80)
                for name in names:
                    self.assertRegex("\n".join(lines), rf"(?m)^[* ] {name} {{2,}}[A-Z]")
        settings = self.said("recipe", "ls").out
        self.assertRegex(settings, r"(?m)^  zero_init_residual  +false  +initialize each")
        wide = self.start("recipe", "ls", env={"COLUMNS": "200"}).finish().out
        self.assertGreater(max(len(line) for line in wide.splitlines()), 120)

    def help_at(self, columns, *command):
        """What `--help` prints on a terminal of so many columns."""
        ours, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        program = subprocess.Popen([harness.BIN / "lockstep", *command, "--help"], stdin=terminal, stdout=terminal, env=env)
        # This end of the pipe stays open and writes the last byte. A read at the moment when the last end is closed could lose bytes.
        end = threading.Thread(target=lambda: (program.wait(), os.write(terminal, b"\0")))
        end.start()
        text = b""
        while not text.endswith(b"\0"):
            text += os.read(ours, 65536)
        end.join()
        os.close(terminal)
        os.close(ours)
        self.assertEqual(program.returncode, 0, command)
        return text[:-1].decode().replace("\r\n", "\n")

    def test_the_help_of_every_command_fits_a_terminal(self):
        seen, open_commands = 0, [()]
        while open_commands:
            command = open_commands.pop()
            seen += 1
            with self.subTest(command=command):
                text = self.help_at(80, *command)
                self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
                # A name and its explanation are two columns, never one.
                rows = re.findall(r"(?m)^  (?=\S)(.*)$", text)
                self.assertEqual([row for row in rows if not re.match(r"\S+( \S+)*(  +\S|$)", row)], [])
                wide = self.help_at(160, *command)
                self.assertEqual(text.split(), wide.split())
            open_commands += [(*command, name) for name in self.subcommands(text)]
        self.assertGreater(seen, 35)

    def subcommands(self, text):
        commands = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
        return re.findall(r"(?m)^  (\S+)", commands)

    def test_the_usage_of_a_command_that_takes_a_program_shows_where_it_goes(self):
        for command, lines in (("submit", ["Usage: lockstep submit [OPTIONS] [RECIPE]", "       lockstep submit [OPTIONS] -- CMD…"]),
                               ("launch", ["Usage: lockstep launch [OPTIONS] -- CMD…"]), ("exec", ["Usage: lockstep exec [OPTIONS] -- CMD…"]),
                               ("scale", ["Usage: lockstep scale [OPTIONS] [RECIPE]", "       lockstep scale [OPTIONS] -- CMD…"]),
                               ("doctor", ["Usage: lockstep doctor [OPTIONS] [SCRIPT]", "       lockstep doctor [OPTIONS] -- CMD…"]),
                               ("train", ["Usage: lockstep train [OPTIONS] RECIPE"]), ("why", ["Usage: lockstep why [OPTIONS] RUN"])):
            with self.subTest(command=command):
                usage = re.search(r"(?m)^Usage: .*(\n .*)*", self.said(command, "--help").out)[0]
                self.assertEqual(usage.splitlines(), lines)

    def test_each_example_of_the_help_uses_flags_that_its_command_has(self):
        seen = 0
        for name in self.subcommands(self.said("--help").out):
            for command in [(name,), *((name, inner) for inner in self.subcommands(self.said(name, "--help").out))]:
                examples = self.said(*command, "--help").out.partition("\nExamples:\n")[2].partition("\n\n")[0]
                for example in re.findall(r"(?m)^  (\S.*)$", examples):
                    words = example.removeprefix("srun ").removeprefix("lockstep ").partition(" -- ")[0].split()
                    own = [*command, words[1]] if self.subcommands(self.said(*command, "--help").out) else command
                    with self.subTest(example=example):
                        seen += 1
                        self.assertEqual(words[:len(own)], list(own))
                        known = self.said(*own, "--help").out.partition("\nExamples:\n")[0]
                        for flag in [word.split("=")[0] for word in words if word.startswith("-")]:
                            self.assertRegex(known, rf"(?m)^  (-\w,)?{re.escape(flag)}( |$)|,--{flag.lstrip('-')} |^  {re.escape(flag)},")
        self.assertGreater(seen, 14)

    def test_help_for_train_shows_the_settings_that_most_runs_set(self):
        text = self.said("train", "--help").out
        self.assertRegex(text, r"(?m)^  optimizer\.lr {2,}learning rate$")
        listed = self.said("recipe", "ls").out
        self.assertLess(listed.index("  optimizer.lr "), listed.index("[model]"))

    def test_a_shell_completes_clusters_recipes_and_runs_by_name(self):
        run = self.folder / "mine-20260101-000000"
        run.mkdir()
        (run / "job.json").write_text(json.dumps({"schema": 1, "job": "7", "name": "mine", "cluster": "generic", "command": "true", "nodes": 1,
                                                  "tasks": 1, "is_recipe": False, "time_s": 60, "submitted": 1, "packed_in": ""}))
        script = self.folder / "completion.bash"
        script.write_text(self.said("completion", "bash").out + "\noffer() { COMP_WORDS=(\"$PROGRAM\" \"$@\"); COMP_CWORD=$#; _lockstep; "
                                                                "echo \"${COMPREPLY[@]}\"; }\noffer \"$@\"\n")
        for words, names in ((("follow", "mi"), "mine-20260101-000000"), (("stop", ""), run.name), (("report", run.name, ""), run.name),
                             (("monitor", ""), run.name), (("submit", "cifar"), "cifar100 cifar100-resnet50"), (("train", "mni"), "mnist"),
                             (("submit", "--cluster", "l"), "leonardo lumi-g"), (("profile", "show", "per"), "perlmutter"),
                             (("plan", "digits", "--cluster", "=", "fr"), "frontier")):
            with self.subTest(words=words):
                done = subprocess.run(["bash", script, *words], env={**os.environ, "PROGRAM": str(harness.BIN / "lockstep"), "LOCKSTEP_RUNS": str(self.folder), "HOME": str(self.folder)},
                                      capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout.strip(), names, done.stderr)

    def test_a_doctor_that_finds_nothing_says_how_much_it_looked_at(self):
        (self.folder / "run").mkdir()
        alone = self.start("doctor", "--json", "--cluster", "generic").finish().object["checks"]
        self.assertGreater(alone["node"], 0)
        self.assertGreater(alone["job"], 0)
        self.assertEqual(alone["run"], 0)
        with_run = self.start("doctor", "--json", "--cluster", "generic", "--run", self.folder / "run").finish().object["checks"]
        self.assertEqual((with_run["node"], with_run["job"]), (alone["node"], alone["job"]))
        self.assertGreater(with_run["run"], 0)


if __name__ == "__main__":
    harness.main()
