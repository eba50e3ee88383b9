"""One chat completion over OpenAI's API, with nothing but Python's own library; other recipes ask with it, too."""

import json
import urllib.request

LIMIT = 40  # tokens of a reply


def ask(task, messages, model):
    """What the model says to the messages: its reply, whether it ended it by itself, and how many tokens that took."""
    body = {"model": model, "messages": messages, "max_completion_tokens": LIMIT, "temperature": 1}
    headers = {"content-type": "application/json", "authorization": f"Bearer {task.api_key}"}
    request = urllib.request.Request(f"{task.base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=task.timeout_seconds) as response:
        answer = json.load(response)
    choice = answer["choices"][0]
    reply = choice["message"]["content"] or ""
    return reply, choice["finish_reason"] == "stop", answer["usage"]["completion_tokens"]
