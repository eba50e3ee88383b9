"""Ends the servers that setup.py has started for a world. It may run any number of times."""

import contextlib
import os
import signal
from pathlib import Path


def main():
    world = Path(os.environ["FULGURITE_WORLD"])
    pids = world / ".pids"
    for pid in pids.read_text().split() if pids.is_file() else []:
        with contextlib.suppress(OSError):
            # A number may be somebody else's by now.
            if str(world).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    main()
