"""Walks the office of sixty tools whole, by a scripted model: python3 walk.py [--fulgurite PROGRAM] [--task N]

Every tool is listed, inspected, added, called and removed again at its server, over stdio and streamable HTTP, through
the proxy, in a world that is made, graded and taken away. Prints the answers of all tools, the reward, and what the
changes of tools cost.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from office.tasks import Task

HERE = Path(__file__).resolve().parent
DAY = "2026-03-20"
# Arguments for every tool, in an order in which each call succeeds.
CALLS = {
    "files": {
        "files_list": {},
        "files_read": {"path": "welcome.txt"},
        "files_write": {"path": "walk/a.txt", "text": "one"},
        "files_append": {"path": "walk/a.txt", "text": "two"},
        "files_copy": {"path": "walk/a.txt", "to": "walk/b.txt"},
        "files_move": {"path": "walk/b.txt", "to": "walk/c.txt"},
        "files_find": {"text": "two"},
        "files_delete": {"path": "walk/c.txt"},
    },
    "documents": {
        "documents_list": {},
        "documents_outline": {"name": "handbook"},
        "documents_read_section": {"name": "handbook", "heading": "Hours"},
        "documents_replace_section": {"name": "handbook", "heading": "Hours", "text": "Ten to six."},
        "documents_add_section": {"name": "walk", "heading": "One", "text": "A section."},
        "documents_replace_text": {"name": "walk", "old": "section", "new": "part"},
        "documents_count_words": {"name": "walk"},
        "documents_remove_section": {"name": "walk", "heading": "One"},
    },
    "sheets": {
        "sheets_list": {},
        "sheets_columns": {"sheet": "stock"},
        "sheets_read_rows": {"sheet": "stock"},
        "sheets_read_cell": {"sheet": "stock", "cell": "A2"},
        "sheets_set_cell": {"sheet": "stock", "cell": "B2", "value": "7"},
        "sheets_add_row": {"sheet": "stock", "values": ["ink", "5"]},
        "sheets_find_rows": {"sheet": "stock", "column": "item", "value": "ink"},
        "sheets_sum": {"sheet": "stock", "column": "count"},
        "sheets_delete_row": {"sheet": "stock", "row": 4},
    },
    "mail": {
        "mail_list": {},
        "mail_read": {"id": 1},
        "mail_search": {"text": "information"},
        "mail_send": {"to": "Ada", "text": "Hello."},
        "mail_reply": {"id": 1, "text": "Thanks."},
        "mail_forward": {"id": 2, "to": "Elif"},
        "mail_move": {"id": 2, "folder": "old"},
        "mail_delete": {"id": 3},
    },
    "calendar": {
        "calendar_list": {"day": DAY},
        "calendar_find": {"text": "talk"},
        "calendar_read": {"id": 1},
        "calendar_add": {"day": DAY, "time": "09:00", "title": "walk"},
        "calendar_move": {"id": 1, "day": DAY, "time": "10:00"},
        "calendar_invite": {"id": 2, "who": "Nobody"},
        "calendar_cancel": {"id": 2},
    },
    "contacts": {
        "contacts_list": {},
        "contacts_find": {"text": "Ada"},
        "contacts_add": {"name": "Kai", "address": "kai@office.example"},
        "contacts_update": {"name": "Kai", "address": "k@office.example"},
        "contacts_remove": {"name": "Kai"},
    },
    "todo": {
        "todo_list": {},
        "todo_add": {"text": "walk"},
        "todo_finish": {"id": 1},
        "todo_assign": {"id": 2, "who": "Ada"},
        "todo_reschedule": {"id": 2, "due": DAY},
        "todo_remove": {"id": 3},
    },
    "rooms": {
        "rooms_list": {},
        "rooms_free": {"day": DAY, "time": "09:00"},
        "rooms_book": {"room": "Alder", "day": DAY, "time": "09:00", "title": "walk"},
        "rooms_release": {"room": "Alder", "day": DAY, "time": "09:00"},
    },
    "reckoning": {
        "reckoning_today": {},
        "reckoning_weekday": {"day": DAY},
        "reckoning_add_days": {"day": DAY, "number": 3},
        "reckoning_days_between": {"first": DAY, "second": "2026-04-01"},
        "reckoning_sum": {"numbers": [1, 2.5]},
    },
}


def call(name, /, **arguments):
    return {"name": name, "arguments": arguments}


def script(answer):
    """The answers of the model: a server's tools are inspected and added, called, and removed again."""
    answers = [[call("toolbelt_list_tools")]]
    for tools in CALLS.values():
        added = [
            each
            for name in tools
            for each in (call("toolbelt_inspect_tool", name=name), call("toolbelt_add_tool", name=name))
        ]
        called = [{"name": name, "arguments": arguments} for name, arguments in tools.items()]
        answers += [added, called, [call("toolbelt_remove_tool", name=name) for name in tools]]
    return [*answers, [call("final_answer", answer=answer)]]


class Served:
    """The scripted model, a server of it, and rollouts of an agent there. What it has started ends with it."""

    def __init__(self, program, at, answers, *models):
        """`models`: further ones that are served, as the command is told of them."""
        self.program, self.at, self.started = program, at, []
        (at / "script.json").write_text(json.dumps(answers))
        host = self._start(
            [sys.executable, HERE / "scripted_model.py", at / "tokenizer", at / "host", at / "script.json"]
        )
        model = f"clerk=vllm:{_wait(at / 'host', host)},path={at / 'tokenizer'},tools=preamble"
        self.store = f"sqlite://{at / 'store.db'}"
        line = [
            program,
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            self.store,
            "--model",
            model,
            *[word for each in models for word in ("--model", each)],
            "--ready-file",
            at / "ready",
        ]
        self.url = json.loads(_wait(at / "ready", self._start(line)))["url"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            process.terminate()
            process.wait()

    def _start(self, line):
        self.started.append(subprocess.Popen(line, stdout=subprocess.DEVNULL))
        return self.started[-1]

    def enqueue(self, task, *words):
        (self.at / "tasks.jsonl").write_text(f"{task}\n")
        line = [self.program, "enqueue", "--server", self.url, "--file", self.at / "tasks.jsonl", *words]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)

    def runner(self, config, *words):
        """The command of a runner, which leaves when there is nothing to do."""
        line = [self.program, "run", "--server", self.url, "--config", config, "--worlds", self.at / "worlds"]
        return [*line, "--until-idle", *words]

    def queried(self, *words):
        line = [self.program, *words, "--store", self.store, "--json"]
        shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        return [json.loads(line) for line in shown.splitlines()]

    def worlds(self):
        """The worlds that are there."""
        return [path.name for path in (self.at / "worlds").iterdir() if path.is_dir()]


def _wait(path, process):
    while not path.exists():
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with status {process.returncode}")
        time.sleep(0.02)
    return path.read_text()


def walk(program, at, task):
    """Plays the walk, and gives the rollout, its rewards and its turns."""
    kind = Task(task).kind
    answer = f"{kind.day.strftime('%A')}, {kind.days}" if kind.name == "schedule" else "done"
    with Served(program, at, script(answer)) as served:
        served.enqueue(task)
        # A token of the scripted model is a byte.
        agent = ["python3", "{project}/agent.py", "--answer-tokens", "16384"]
        subprocess.run(served.runner(HERE / "office.toml", "--", *agent), check=True)
        rollout = served.queried("rollouts")[0]
        turns = served.queried("drift", rollout["rollout_id"])
        return rollout, served.queried("rewards"), turns, served.worlds()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fulgurite", default=str(HERE.parents[1] / "target/debug/fulgurite"))
    parser.add_argument("--task", type=int, default=1001)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rollout, rewards, turns, left = walk(options.fulgurite, Path(directory), options.task)
    report(rollout, rewards, turns)
    print(f"worlds that are left: {len(left)}")


def components(rewards):
    """What the grader said beside the reward."""
    return dict(rewards[-1]["reward"]["components"]) if rewards else {}


def report(rollout, rewards, turns):
    """What the walk came to, and what the changes of tools cost in tokens that had to be read anew."""
    attempt = rollout["attempt"]["metadata"]
    print(
        f"{rollout['status']}, reward {rollout['reward']}; {attempt.get('reason', attempt.get('output', '').strip())}"
    )
    for name, value in components(rewards).items():
        print(f"  {name}: {value:g}")
    changes = attempt.get("world_changes", {})
    print("world:", *(f"{len(changes.get(what, []))} files {what}" for what in ("created", "changed", "deleted")))
    print(f"{'turn':>4} {'prompt':>7} {'kept':>7} {'anew':>7}  why")
    for turn in turns:
        prompt, kept = turn["prompt_tokens"], turn["kept_tokens"]
        print(f"{turn['sequence_id']:>4} {prompt:>7} {kept:>7} {prompt - kept:>7}  {turn['reason'] or ''}")
    changed = [turn for turn in turns if turn["reason"] == "tools_changed"]
    cost = sum(turn["prompt_tokens"] - turn["kept_tokens"] for turn in changed)
    print(f"tools changed {len(changed)} times, which cost {cost} tokens of prompts")


if __name__ == "__main__":
    main()
