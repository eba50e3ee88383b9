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
is_started = threading.Event()


def read_lines():
    """Read all that comes. Whoever sends it may be gone before the run is known at Weights & Biases, which may take long."""
    for line in sys.stdin:
        lines.put(line)
    lines.put(None)
    if not is_started.is_set():
        os._exit(1)


def started(settings):
    """The run at Weights & Biases; offline, it replaces what was written of the same run before."""
    import wandb

    is_offline = os.environ.get("WANDB_MODE", "offline") == "offline"
    if is_offline:
        for old in (Path(settings["directory"]) / "wandb").glob(f"offline-run-*-{settings['id']}"):
            shutil.rmtree(old)
    return wandb.init(
        mode="offline" if is_offline else None,
        dir=settings["directory"],
        id=settings["id"],
        project=settings["project"],
        name=settings["name"],
        config=settings["config"],
        resume=None if is_offline else "allow",
        # Only what the run says is passed on: nothing of this program, its directory or the machine.
        settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True),
    )


def passed_on():
    """Passes all of a run on."""
    threading.Thread(target=read_lines, daemon=True).start()
    run = started(json.loads(lines.get()))
    is_started.set()
    print("started", file=answers, flush=True)
    exit_code = 1
    for line in iter(lines.get, None):
        update = json.loads(line)
        if update["event"] == "finish":
            exit_code = 0
        else:
            run.log({**update["metrics"], "_timestamp": update["time"]}, step=update["step"])
    run.finish(exit_code=exit_code)


try:
    passed_on()
except Exception as error:
    print(f"{type(error).__name__}: {error}".splitlines()[0], file=answers, flush=True)
    # The thread may be reading, for which an interpreter that ends would wait.
    os._exit(1)
