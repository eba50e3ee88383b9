"""Frames over the socket to the trainer: a small header in JSON, and tensors in the format of safetensors."""

from __future__ import annotations

import json
import socket
import struct
from enum import Enum
from typing import Any

PROTOCOL = 1
"""Version of the protocol. The trainer and this package must have the same one."""

LONGEST_SILENCE = 120.0
"""Seconds without a sign of life after which one of several processes is given up. Passes do not keep it from giving them."""

ALIVE = "alive"
"""Key of the frames that are nothing but a sign of life."""

_LENGTHS = struct.Struct("<IQ")
_LONGEST_HEADER = 1 << 20
_LONGEST_BODY = 1 << 36


class Fault(Enum):
    """Kinds of errors, by which the trainer tells them apart."""

    INVALID_REQUEST = "invalid_request"
    CONFIGURATION = "configuration"
    FILES = "files"
    INTERNAL = "internal"


class LearnerError(Exception):
    """A call that cannot be answered. The learner goes on."""

    def __init__(self, fault: Fault, message: str, path: str | None = None) -> None:
        """Keep what the trainer is sent."""
        super().__init__(message)
        self.fault, self.message, self.path = fault, message, path

    def fields(self) -> dict[str, Any]:
        """Return the error as the header of a reply has it."""
        return {"kind": self.fault.value, "message": self.message, "path": self.path}


class OutOfStepError(Exception):
    """A call that left several processes out of step: the learner ends, and the run goes on from its checkpoint."""

    def __init__(self, error: LearnerError) -> None:
        """Keep what the trainer is sent."""
        super().__init__(error.message)
        self.error = error


def read_frame(connection: socket.socket) -> tuple[dict[str, Any], bytearray] | None:
    """Return the next frame's header and body, or None at the end of the connection."""
    lengths = _receive(connection, _LENGTHS.size)
    if lengths is None:
        return None
    header_length, body_length = _LENGTHS.unpack(lengths)
    if header_length > _LONGEST_HEADER or body_length > _LONGEST_BODY:
        raise ConnectionError(f"a frame of {header_length} and {body_length} bytes is too long")
    header, body = _receive(connection, header_length), _receive(connection, body_length)
    if header is None or body is None:
        raise ConnectionError("the connection ended within a frame")
    fields = json.loads(bytes(header))
    if not isinstance(fields, dict):
        raise ConnectionError("the header of a frame is not an object")
    return fields, body


def write_frame(connection: socket.socket, header: dict[str, Any], body: bytes = b"") -> None:
    """Send a frame."""
    encoded = json.dumps(header, allow_nan=False).encode()
    connection.sendall(_LENGTHS.pack(len(encoded), len(body)) + encoded)
    if body:
        connection.sendall(body)


def _receive(connection: socket.socket, length: int) -> bytearray | None:
    buffer = bytearray(length)
    view, filled = memoryview(buffer), 0
    while filled < length:
        count = connection.recv_into(view[filled:])
        if count == 0 and filled == 0:
            return None
        if count == 0:
            raise ConnectionError("the connection ended within a frame")
        filled += count
    return buffer
