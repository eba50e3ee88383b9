"""Makes the world of an attempt: create, populate, configure. Usage: setup.py [--http SERVER,SERVER] [--servers ...]

The runner has created the directory $FULGURITE_WORLD. This fills it with the task's office, and writes into
`.toolbelt.json` there which MCP servers the agent has, and how each is reached: as a process that the agent starts, or,
of those that --http names, at a URL. These are started here, and ended by teardown.py; they end by themselves, too,
once the world is gone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from office.servers import SERVERS
from office.tasks import task_of
from office.world import World

PROJECT = Path(__file__).resolve().parent
PATIENCE = 60  # seconds


def command(server, world):
    return [sys.executable, "-m", "office.serve", server, "--world", str(world)]


def start_http(servers, world):
    """Starts servers over HTTP, and gives their URLs."""
    started = {}
    for name in servers:
        ready = world / f".{name}.url"
        line = [*command(name, world), "--http", "--ready", str(ready)]
        # A session of its own: it is to outlive this program.
        process = subprocess.Popen(
            line,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started[name] = (process, ready)
        with open(world / ".pids", "a", encoding="utf-8") as pids:
            pids.write(f"{process.pid}\n")
    deadline = time.monotonic() + PATIENCE
    while not all(ready.exists() for _, ready in started.values()):
        for name, (process, _) in started.items():
            if process.poll() is not None:
                sys.exit(f"the server {name} ended with status {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            sys.exit(f"the servers {', '.join(started)} were not ready within {PATIENCE} s")
        time.sleep(0.02)
    return {name: ready.read_text() for name, (_, ready) in started.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", default="", help="servers that are reached over streamable HTTP")
    parser.add_argument(
        "--servers", default=",".join(SERVERS), help="the servers that there are; all unless told otherwise"
    )
    options = parser.parse_args()
    there, http = ([name for name in names.split(",") if name] for names in (options.servers, options.http))
    if unknown := [name for name in there + http if name not in SERVERS]:
        parser.error(f"there is no server {unknown[0]}; there are {', '.join(SERVERS)}")
    root = Path(os.environ["FULGURITE_WORLD"])
    task = task_of(os.environ["FULGURITE_TASK"])
    task.populate(World(root), os.environ.get("FULGURITE_WORLD_SEED", "0"))
    urls = start_http(http, root)
    servers = {
        name: {"url": urls[name]} if name in urls else {"command": command(name, root), "directory": str(PROJECT)}
        for name in there
    }
    (root / ".toolbelt.json").write_text(json.dumps({"prompt": task.prompt, "servers": servers}, indent=1))


if __name__ == "__main__":
    main()
