"""The first of several processes that train one model: it has the others compute their shares, and adds them to its own."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch

from fulgurite.learner.calls import Calls, Reply
from fulgurite.learner.protocol import (
    ALIVE,
    LONGEST_SILENCE,
    Fault,
    LearnerError,
    OutOfStepError,
    read_frame,
    write_frame,
)

PATIENCE = 10.0
"""Seconds in which processes that go in step fail together. Counted only once one of them has failed."""


class Other:
    """Another process, and what it replies."""

    def __init__(self, rank: int, failed: Callable[[LearnerError], None]) -> None:
        """Start it."""
        self.rank, self._failed = rank, failed
        self._last_sign: float | None = None
        self._connection, theirs = socket.socketpair()
        command = [sys.executable, "-m", "fulgurite.learner"]
        # It ends when the connection does, as this process does.
        self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        theirs.close()
        self._replies: queue.SimpleQueue[tuple[dict[str, Any], bytearray]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, header: dict[str, Any], body: bytes | bytearray = b"") -> None:
        """Have it answer a call."""
        with contextlib.suppress(OSError):  # its end is a reply
            write_frame(self._connection, header, bytes(body))

    def reply(self, patience: float | None) -> tuple[dict[str, Any], bytearray] | None:
        """Return its next reply, or None where there is none in time."""
        try:
            return self._replies.get(timeout=patience)
        except queue.Empty:
            return None

    def is_silent(self, longest: float) -> bool:
        """Whether it has given no sign of life for so many seconds since it opened the model."""
        return self._last_sign is not None and time.monotonic() - self._last_sign > longest

    def kill(self) -> int:
        """End it, though it be stopped; return its id."""
        self._process.kill()
        return self._process.pid

    def _read(self) -> None:
        try:
            read_frame(self._connection)  # the version of the protocol
            while (frame := read_frame(self._connection)) is not None:
                self._last_sign = time.monotonic()
                if ALIVE in frame[0]:
                    continue
                self._replies.put(frame)
                if (error := error_of(frame[0])) is not None:
                    self._failed(error)
        except (OSError, ValueError):
            pass
        code = self._process.wait()
        how = f"exit status: {code}"
        if code == -signal.SIGKILL:
            how = "killed by SIGKILL, as the system kills what takes too much memory: dmesg would say so"
        message = f"process {self.rank} of the torch learner ended ({how})"
        error = LearnerError(Fault.INTERNAL, f"{message}; the run goes on from its checkpoint by --resume")
        self._replies.put(({"error": error.fields()}, bytearray()))
        self._failed(error)


def error_of(header: dict[str, Any]) -> LearnerError | None:
    """Return the error that a reply is."""
    fields = header.get("error")
    return None if fields is None else LearnerError(Fault(fields["kind"]), fields["message"], fields["path"])


class Group:
    """A learner of several processes, behind its calls."""

    def __init__(self, header: dict[str, Any], report: Callable[[LearnerError], None]) -> None:
        """Open the model in all of them; `report` sends the trainer an error from a process that waits for another."""
        self._report = report
        self._lock = threading.Lock()
        self._call, self._computing, self._waiting = 0, False, False
        # What they meet by is between the processes of this machine.
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, "lo0" if sys.platform == "darwin" else "lo")
        with tempfile.TemporaryDirectory() as directory:
            store = str(Path(directory) / "meeting")
            self._others = [Other(rank, self._other_failed) for rank in range(1, header["processes"])]
            for other in self._others:
                other.send({**header, "rank": other.rank, "store": store})
            self._calls, _ = self._together(lambda: Calls({**header, "rank": 0, "store": store}))
        threading.Thread(
            target=self._watch, args=(header.get("longest_silence", LONGEST_SILENCE),), daemon=True
        ).start()

    def opened(self) -> dict[str, Any]:
        """Return what there is to know of the learner."""
        return {**self._calls.opened(), "processes": 1 + len(self._others)}

    def answer(self, header: dict[str, Any], body: bytearray) -> Reply:
        """Answer a call."""
        with self._lock:
            self._waiting = True  # a process that is stopped does not even take a call
        for other in self._others:
            other.send(header, body)
        writes = header["call"] in ("save_checkpoint", "save_weights")
        (own, found), replies = self._together(lambda: self._calls.answer(header, body), alone=writes)
        if not found:
            return own, found
        # Each has its own slots, and 0 in those of others.
        total = safetensors.torch.load(found)
        for _, part in replies:
            for name, it in safetensors.torch.load(bytes(part)).items():
                total[name] += it
        return own, safetensors.torch.save(total)

    def _together(
        self, work: Callable[[], Any], *, alone: bool = False
    ) -> tuple[Any, list[tuple[dict[str, Any], bytearray]]]:
        """Do this process's share, and wait for the others'. What it does `alone` may fail here only."""
        with self._lock:
            self._call += 1
            self._computing = self._waiting = True
        own: LearnerError | None = None
        result = None
        try:
            result = work()
        except LearnerError as error:
            own = error
        except Exception as error:  # it may be that another has left
            own = LearnerError(Fault.INTERNAL, f"{type(error).__name__}: {error}")
        with self._lock:
            self._computing = False
        replies = [other.reply(PATIENCE if own else None) for other in self._others]
        with self._lock:
            self._waiting = False
        errors = [None if it is None else error_of(it[0]) for it in replies]
        if own is None and not any(errors):
            return result, [it for it in replies if it is not None]
        if own is not None and all(replies):
            refused = all(it is not None and it.message == own.message for it in errors)
            if refused or (alone and not any(errors)):
                raise own  # they are in step
        # The first cause is an error that says what to do; a process that was left by another can say only that.
        known = [it for it in (own, *errors) if it is not None]
        raise OutOfStepError(next((it for it in known if it.fault is not Fault.INTERNAL), known[-1]))

    def _watch(self, longest: float) -> None:
        """End this process where it goes on waiting for one that is stopped or hangs, which ends no call by itself."""
        while True:
            before = time.monotonic()
            time.sleep(longest / 4)
            if time.monotonic() - before > longest / 2:  # this process was stopped itself, and the others may have been
                continue
            silent = [other for other in self._others if other.is_silent(longest)]
            with self._lock:
                if not (self._waiting and silent):
                    continue
                cause = f"has given no sign of life for {longest:g} s (longest_silence): it was stopped, or hangs"
                message = (
                    f"process {silent[0].rank} of the torch learner {cause}; process id {silent[0].kill()} was killed"
                )
                help_text = "the run goes on from its checkpoint by --resume"
                self._report(LearnerError(Fault.INTERNAL, f"{message}; {help_text}"))
                os._exit(1)

    def _other_failed(self, error: LearnerError) -> None:
        """End this process where it goes on waiting for one that has failed."""
        with self._lock:
            call = self._call

        def give_up() -> None:
            with self._lock:
                if self._computing and self._call == call:
                    self._report(error)
                    os._exit(1)

        timer = threading.Timer(PATIENCE, give_up)
        timer.daemon = True
        timer.start()
