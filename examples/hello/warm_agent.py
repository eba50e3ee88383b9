"""The agent of one call as one process for all tasks, with nothing but Python: what `hello-agent` does.

It knows Fulgurite only by `serve`, which hands it tasks; `agent.py` does the same once, with the `openai` package.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from fulgurite_agent import serve


def run(task):
    body = {
        "model": os.environ.get("HELLO_MODEL", "hello"),
        "messages": [{"role": "user", "content": f"Let's play a game. Say you are {task.input}."}],
        "max_completion_tokens": 32,
    }
    request = urllib.request.Request(
        f"{task.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {task.api_key}"},
    )
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    cut = "" if choice["finish_reason"] == "stop" else f"[finish_reason: {choice['finish_reason']}]\n"
    return f"{choice['message']['content']}\n{cut}"


serve(run)
