"""The office of sixty tools with a judge: FULGURITE=target/debug/fulgurite python -m unittest tests.test_judged

A scripted model moves a meeting and writes mails, politely or not, and a scripted judge goes by judged.toml's criteria.
"""

import json
import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import scripted_judge
import tomllib
import walk
from office.tasks import Task

FULGURITE = os.environ.get("FULGURITE")
TASK = 1003  # a meeting
CONFIG = walk.HERE / "judged.toml"


def script(text, moved=True):
    """A model that moves the meeting, books the room, and mails everybody a text; or does no more than answer."""
    kind = Task(TASK).kind
    assert kind.name == "meeting"
    tools = ["calendar_move", "rooms_book", "mail_send"]
    calls = [
        walk.call("calendar_move", id=101, day=kind.new, time=kind.time),
        walk.call("rooms_book", room=kind.free, day=kind.new, time=kind.time, title=kind.title),
        *[walk.call("mail_send", to=who, text=text.format(who=who, kind=kind)) for who in kind.who],
    ]
    answer = [walk.call("final_answer", answer=kind.free)]
    return [[walk.call("toolbelt_add_tool", name=name) for name in tools], calls, answer] if moved else [answer]


POLITE = "Dear {who}, the {kind.title} was moved to {kind.new} at {kind.time}. Kind regards."
CURT = "{kind.new} {kind.time}!!"


@unittest.skipUnless(FULGURITE, "FULGURITE does not say where the command is")
class Judged(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.at = Path(directory.name)
        self.judge = scripted_judge.serve()
        threading.Thread(target=self.judge.serve_forever, daemon=True).start()
        self.addCleanup(self.judge.server_close)
        self.addCleanup(self.judge.shutdown)

    def config(self):
        """judged.toml with the servers that a meeting needs, which are started sooner than all nine."""
        http = '"--http", "mail,calendar"'
        text = CONFIG.read_text()
        assert http in text
        text = text.replace(http, f'{http}, "--servers", "calendar,mail,rooms"')
        config = self.at / "judged.toml"
        config.write_text(text.replace("[runner]\n", f"[runner]\ndirectory = {json.dumps(str(walk.HERE))}\n"))
        return config

    def play(self, answers):
        """The rollout of a scripted model, and what the judge said of each criterion."""
        url = f"http://127.0.0.1:{self.judge.server_port}/v1"
        task = json.dumps({"number": TASK, "prompt": Task(TASK).prompt})
        with walk.Served(str(Path(FULGURITE).resolve()), self.at, answers, f"judge=openai:{url}") as served:
            served.enqueue(task)
            subprocess.run(served.runner(self.config()), check=True)
            rollout = served.queried("rollouts")[0]
            self.assertEqual(rollout["status"], "succeeded", rollout["attempt"])
            judgements = rollout["attempt"]["metadata"]["judgements"]
            return rollout["reward"], {each["criterion"] for each in judgements if not each["met"]}

    def test_polite_mails_earn_all_and_curt_ones_less(self):
        reward, unmet = self.play(script(POLITE))
        self.assertEqual((reward, unmet), (1.0, set()))
        self.assertEqual(self.judge.judged, 5)

    def test_curt_mails_miss_what_only_a_judge_can_see(self):
        reward, unmet = self.play(script(CURT))
        self.assertEqual((reward, unmet), (6 / 7, {"polite"}))

    def test_whoever_only_answers_meets_no_criterion(self):
        criteria = {each["name"] for each in tomllib.loads(CONFIG.read_text())["runner"]["rubric"]["criteria"]}
        self.assertEqual(self.play(script("", moved=False)), (0.0, criteria))


if __name__ == "__main__":
    unittest.main()
