"""The agent: a loop over OpenAI's chat completions, one process for all games (docs/warm-agents.md).

It speaks plain HTTP and needs no package: with calls as cheap as these, a client library would be half of the time.
"""

import json
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import game
from fulgurite_agent import serve


def run(task):
    def ask(messages):
        fields = {"model": "speller", "messages": messages, "max_completion_tokens": 8}
        headers = {"authorization": f"Bearer {task.api_key}", "content-type": "application/json"}
        request = urllib.request.Request(f"{task.base_url}/chat/completions", json.dumps(fields).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["choices"][0]["message"]["content"]

    return game.play(int(task.input), ask)


if __name__ == "__main__":
    serve(run)
