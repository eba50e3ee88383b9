"""The process that the trainer starts: it answers calls over its standard input, which is a socket, until that is closed."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from fulgurite.learner.protocol import (
    ALIVE,
    LONGEST_SILENCE,
    PROTOCOL,
    Fault,
    LearnerError,
    OutOfStepError,
    read_frame,
    write_frame,
)

if TYPE_CHECKING:
    from fulgurite.learner.calls import Calls
    from fulgurite.learner.group import Group


def main() -> None:
    """Open the model that the first call names, and answer the calls behind it."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # an interrupt is the trainer's, which ends this process when it is done
    connection = _connection()
    threading.Thread(target=_end_with_the_trainer, args=(connection,), daemon=True).start()
    write_frame(connection, {"protocol": PROTOCOL})
    writing = threading.Lock()
    calls: Calls | Group | None = None
    while (frame := read_frame(connection)) is not None:
        header, body = frame
        try:
            if calls is None:
                calls = _open(header, connection)
                reply: tuple[dict[str, Any], bytes] = calls.opened(), b""
            else:
                reply = calls.answer(header, body)
        except LearnerError as error:
            reply = {"error": error.fields()}, b""
        except OutOfStepError as error:
            write_frame(connection, {"error": error.error.fields()})
            os._exit(1)
        except Exception as error:
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}"
            reply = {"error": LearnerError(Fault.INTERNAL, message).fields()}, b""
        with writing:
            write_frame(connection, *reply)
        if header["call"] == "open" and "rank" in header:
            pause = header.get("longest_silence", LONGEST_SILENCE) / 8
            threading.Thread(target=_give_signs, args=(connection, writing, pause), daemon=True).start()


def _give_signs(connection: socket.socket, writing: threading.Lock, pause: float) -> None:
    """Have the first process know that this one is not stopped, however long a call takes."""
    while True:
        time.sleep(pause)
        try:
            with writing:
                write_frame(connection, {ALIVE: True})
        except OSError:
            return  # it is gone, and this process ends


def _connection() -> socket.socket:
    connection = socket.socket(fileno=os.dup(0))
    # Nothing that a library prints or reads must get between the frames.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return connection


def _end_with_the_trainer(connection: socket.socket) -> None:
    """End this process when the trainer is gone, also in the middle of a pass."""
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0) | select.POLLHUP)
    poll.poll()
    os._exit(0)


def _open(header: dict[str, Any], connection: socket.socket) -> Calls | Group:
    if header.get("call") != "open":
        raise LearnerError(Fault.INVALID_REQUEST, f"the first call is `{header.get('call')}`, but must be `open`")
    if header["protocol"] != PROTOCOL:
        other = f"the trainer speaks version {header['protocol']} of the protocol, and this package {PROTOCOL}"
        raise LearnerError(Fault.CONFIGURATION, f"{other}: install the package of the trainer's version")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        from fulgurite.learner.calls import Calls
        from fulgurite.learner.group import Group
    except (ImportError, OSError) as error:
        help_text = f"help: {sys.executable} -m pip install 'fulgurite[torch]'"
        message = f"the torch learner cannot import a package ({error}); {help_text}"
        raise LearnerError(Fault.CONFIGURATION, message) from error
    if header.get("processes", 1) == 1 or "rank" in header:
        return Calls(header)
    return Group(header, lambda error: write_frame(connection, {"error": error.fields()}))


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the trainer is gone
