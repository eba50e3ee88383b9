"""The agent of agent.rs with the official `openai` package, which reads OPENAI_BASE_URL and OPENAI_API_KEY itself."""

import os
import sys

from openai import OpenAI

completion = OpenAI().chat.completions.create(
    model=os.environ.get("HELLO_MODEL", "hello"),
    messages=[{"role": "user", "content": f"Let's play a game. Say you are {sys.argv[1]}."}],
    max_completion_tokens=32,
)
choice = completion.choices[0]
print(choice.message.content)
if choice.finish_reason != "stop":
    print(f"[finish_reason: {choice.finish_reason}]")
