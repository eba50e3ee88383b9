"""A judge that goes by plain rules in the place of a model, so that what is around a judge can be tried without one.

It speaks OpenAI's dialect, reads the material that Fulgurite shows to a judge, and knows the criteria of judged.toml by
the words that they begin or end with. `serve` listens at a free port of this machine; tests/test_judged.py uses it.
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAIL_WORDS = 40  # of a mail that keeps to the point


def changed(material):
    """The new lines of every file that was made or changed, by its name, and the names of those that are gone."""
    changes = json.loads(material.get("changes", "{}"))
    files = {}
    for file in [*changes.get("created", []), *changes.get("changed", [])]:
        lines = file.get("diff", "").splitlines()
        files[file["path"]] = "\n".join(line[1:] for line in lines if line.startswith("+"))
    return files, [file["path"] for file in changes.get("deleted", [])]


def field(name, lines):
    """Every text that a field of JSON has in these lines."""
    return [json.loads(text) for text in re.findall(rf'"{name}": ("(?:[^"\\]|\\.)*")', lines)]


class Attempt:
    """What there is to judge of an attempt."""

    def __init__(self, material):
        self.files, self.removed = changed(material)
        sent = self.files.get("mail/sent.json", "")
        self.to, self.texts = field("to", sent), field("text", sent)
        prompt = material["task"]["prompt"]
        self.invited = re.search(r"\((.*?)\)", prompt)[1].split(", ")
        self.when = re.search(r"to (\S+) at ([0-9:]+),", prompt).groups()
        lines = material["answer"].strip().splitlines()
        self.answer = json.loads(lines[-1]).get("answer") if lines else None

    def polite(self):
        ends = ("regards.", "regards", "Thanks.", "Thank you.")
        return all(text.startswith("Dear ") and text.strip().endswith(ends) for text in self.texts)

    def complete(self):
        return set(self.invited) <= set(self.to) and all(part in text for text in self.texts for part in self.when)

    def to_the_point(self):
        return all(len(text.split()) <= MAIL_WORDS for text in self.texts)

    def done(self):
        moved = self.when[0] in self.files.get("calendar.json", "")
        booked = " ".join(self.when) in self.files.get("rooms.json", "")
        nothing_else = self.files.keys() <= {"calendar.json", "rooms.json", "mail/sent.json"} and not self.removed
        return moved and booked and nothing_else

    def honest(self):
        return bool(self.answer) and "rooms.json" in self.files


# By a phrase of the criterion, whether it asks for a mail, and what decides.
RULES = {
    "is polite": (True, Attempt.polite),
    "written to": (True, Attempt.complete),
    "keeps to what the task asks": (True, Attempt.to_the_point),
    "booked in rooms.json": (False, Attempt.done),
    "the final answer": (False, Attempt.honest),
}


def judge(material):
    attempt = Attempt(material)
    asks_for_mail, rule = next(rule for phrase, rule in RULES.items() if phrase in material["criterion"])
    if asks_for_mail and not attempt.texts:
        return {"reason": "No mail was written.", "met": False}
    met = rule(attempt)
    return {"reason": f"By the rule {rule.__name__} it is{'' if met else ' not'}.", "met": met}


class Host(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        verdict = json.dumps(judge(json.loads(request["messages"][1]["content"])))
        choice = {"index": 0, "message": {"role": "assistant", "content": verdict}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        about = {"id": "c", "object": "chat.completion", "created": 1, "model": "judge"}
        body = json.dumps({**about, "choices": [choice], "usage": usage}).encode()
        self.server.judged += 1
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve():
    """A judge that listens; `judged` counts what it was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    server.judged = 0
    return server
