"""The office of sixty tools by the real command: FULGURITE=target/debug/fulgurite python -m unittest
tests.test_stages

A scripted model walks it whole; a runner is killed at every stage of an episode, and the next one leaves nothing
behind.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import walk
from office.tasks import Task

FULGURITE = os.environ.get("FULGURITE")
PATIENCE = 300  # seconds, of which only a failing test takes all
TASK = 1001
HERE = walk.HERE

# Waits at the stage that the file `stage` names until it is killed, the first time: before what it is the stage of, or
# behind it.
WRAPPER = """\
hold() { if [ "$1" = "$(cat stage)" ] && [ ! -e here ]; then touch here; exec sleep 600; fi; }
stage=$1; shift
hold "before $stage"
"$@" || exit $?
hold "behind $stage"
"""


def eventually(what, look):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def processes(word):
    """The command lines that have a word in them, of processes that are there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in line and int(pid) != os.getpid():
            found.append(line)
    return found


@unittest.skipUnless(FULGURITE, "FULGURITE does not say where the command is")
class Stages(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        self.program = str(Path(FULGURITE).resolve())

    def test_a_scripted_model_walks_all_sixty_tools(self):
        rollout, rewards, turns, left = walk.walk(self.program, self.at, TASK)
        metadata = rollout["attempt"]["metadata"]
        self.assertEqual(rollout["status"], "succeeded", metadata)
        self.assertIn('"tool_errors": 0', metadata["output"])
        totals = walk.components(rewards)
        self.assertEqual((totals["tools_used"], totals["tool_errors"], totals["ended/final_answer"]), (60, 0, 1))
        # Each server's tools are put onto the belt and taken off again.
        self.assertEqual(totals["tools_changed"], 18)
        # Taking them off leads back to a branch that is there.
        reasons = [turn["reason"] for turn in turns]
        self.assertEqual(reasons.count("tools_changed"), 9)
        self.assertEqual(left, [])
        self.assertEqual(processes(str(self.at)), [])

    def test_nothing_is_left_of_a_runner_that_is_killed_at_any_stage(self):
        hold = self.at / "hold"
        answers = [
            [walk.call("toolbelt_add_tool", name="calendar_find"), walk.call("toolbelt_add_tool", name="mail_list")],
            [walk.call("calendar_find", text=Task(TASK).kind.title), walk.call("mail_list")],
            {"hold": str(hold), "then": [walk.call("final_answer", answer=right(TASK))]},
        ]
        stages = [
            "before setup",
            "behind setup",
            "before agent",
            "in the middle",
            "behind agent",
            "before grade",
            "behind grade",
            "before teardown",
            "behind teardown",
        ]
        with walk.Served(self.program, self.at, answers) as served:
            for stage in stages:
                with self.subTest(stage):
                    self.killed_at(stage, served, hold)

    def killed_at(self, stage, served, hold):
        self.configure(stage)
        here = self.at / "here"
        for file in (here, Path(f"{hold}.reached")):
            file.unlink(missing_ok=True)
        if stage == "in the middle":
            hold.touch()
            here = Path(f"{hold}.reached")
        served.enqueue(TASK, "--max-attempts", "3")
        runner = served.runner(self.at / "killed.toml", "--worker-id", "one", "--parallel", "1")
        killed = subprocess.Popen(runner)
        eventually(stage, here.exists)
        killed.kill()
        killed.wait()
        hold.unlink(missing_ok=True)
        self.assertEqual(len(served.worlds()), 1)
        self.assertEqual(subprocess.run(runner, check=False).returncode, 0)
        self.assertEqual(served.worlds(), [])
        # A server that a setup had just started ends by itself once its world is gone.
        eventually("the end of all processes", lambda: not processes(str(self.at / "worlds")))
        rollout = served.queried("rollouts")[-1]
        self.assertEqual((rollout["status"], rollout["reward"]), ("succeeded", 1.0), rollout["attempt"])
        self.assertEqual(rollout["attempt"]["sequence_id"], 2)

    def configure(self, stage):
        """The office's config with two of its servers, one of them over HTTP, and with the stage to wait at."""
        (self.at / "stage").write_text(stage)
        (self.at / "wrapper.sh").write_text(WRAPPER)

        def command(stage, *words):
            line = ["sh", "wrapper.sh", stage, sys.executable, *map(str, words)]
            if stage == "agent":
                line = [
                    "sh",
                    "-c",
                    f"world=$PWD; cd {shlex.quote(str(self.at))} && exec {shlex.join(line)} --world $world",
                ]
            return "[" + ", ".join(map(quoted, line)) + "]"

        servers = ("--servers", "calendar,mail", "--http", "mail")
        (self.at / "killed.toml").write_text(
            f"[runner]\n"
            f"setup = {command('setup', HERE / 'setup.py', *servers)}\n"
            f"command = {command('agent', HERE / 'agent.py')}\n"
            f"grade = {command('grade', HERE / 'grade.py')}\n"
            f"teardown = {command('teardown', HERE / 'teardown.py')}\n"
        )


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def right(number):
    kind = Task(number).kind
    return f"{kind.day.strftime('%A')}, {kind.days}"


if __name__ == "__main__":
    unittest.main()
