"""Passes a run's metrics on to Weights & Biases. Reads JSON lines from standard input: the run, its steps, its end."""

import json
import os
import queue
import shutil
import signal
import sys
import threading
from pathlib import Path

# An interrupt of the terminal is for the run, which ends this program by closing its standard input.
signal.signal(signal.SIGINT, signal.SIG_IGN)
# Whoever started this program reads its standard output; nothing that the package prints belongs there.
answers, sys.stdout = sys.stdout, sys.stderr


lines = queue.Queue()
is_begun = threading.Event()


def read_lines():
    """Read all that comes. Whoever sends it may be gone before the run is known at Weights & Biases, which may take long."""
    for line in sys.stdin:
        lines.put(line)
    lines.put(None)
    if not is_begun.is_set():
        os._exit(1)


def begun(told):
    """The run at Weights & Biases; offline, it replaces what was written of the same run before."""
    import wandb

    is_offline = os.environ.get("WANDB_MODE", "offline") == "offline"
    if is_offline:
        for old in (Path(told["directory"]) / "wandb").glob(f"offline-run-*-{told['id']}"):
            shutil.rmtree(old)
    return wandb.init(
        mode="offline" if is_offline else None,
        dir=told["directory"],
        id=told["id"],
        project=told["project"],
        name=told["name"],
        config=told["config"],
        resume=None if is_offline else "allow",
        # Only what the run says is passed on: nothing of this program, its directory or the machine.
        settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True),
    )


def passed_on():
    """Passes all of a run on."""
    threading.Thread(target=read_lines, daemon=True).start()
    run = begun(json.loads(lines.get()))
    is_begun.set()
    print("begun", file=answers, flush=True)
    exit_code = 1
    for line in iter(lines.get, None):
        told = json.loads(line)
        if told["event"] == "finish":
            exit_code = 0
        else:
            run.log({**told["metrics"], "_timestamp": told["time"]}, step=told["step"])
    run.finish(exit_code=exit_code)


try:
    passed_on()
except Exception as error:
    print(f"{type(error).__name__}: {error}".splitlines()[0], file=answers, flush=True)
    # The thread may be reading, for which an interpreter that ends would wait.
    os._exit(1)
