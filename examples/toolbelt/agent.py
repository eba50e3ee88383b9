"""The agent of the office of sixty tools: starts in its world, and prints how its episode ended, in a line of JSON.

It finds what it is asked and which MCP servers it has in `.toolbelt.json`, and the model as any program with OpenAI's
package does. It knows nothing of who trains it.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

import openai
from belt import Belt
from connection import Limits
from loop import play
from stdio_transport import StdioTransport


def target(server, limits):
    """How `mcp.Client` reaches a server."""
    if "url" in server:
        return server["url"]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return StdioTransport(
        server["command"], cwd=server.get("directory"), environment=environment, greatest_line=limits.greatest_line
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="clerk")
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3500.0, help="of the whole episode")
    parser.add_argument("--answer-tokens", type=int, default=1024)
    parser.add_argument("--world", default=".", help="where its world is; where it was started, unless told otherwise")
    parser.add_argument("--call-seconds", type=float, default=20.0, help="of a tool")
    options = parser.parse_args()
    prepared = json.loads(Path(options.world, ".toolbelt.json").read_text())
    limits = Limits(call_seconds=options.call_seconds)
    belt = Belt({name: target(server, limits) for name, server in prepared["servers"].items()}, limits)
    try:
        belt.open()
        outcome = play(
            openai.OpenAI(),
            options.model,
            belt,
            prepared["prompt"],
            turns=options.turns,
            seconds=options.seconds,
            answer_tokens=options.answer_tokens,
        )
    finally:
        belt.close()
    print(json.dumps(dataclasses.asdict(outcome)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
