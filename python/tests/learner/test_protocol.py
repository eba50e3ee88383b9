"""The process as the trainer starts it: over a socket that is its standard input."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fulgurite.learner.protocol import PROTOCOL, read_frame, write_frame
from safetensors.torch import load, save

PYTHON = Path(__file__).resolve().parents[2]
KNOWN = b'\x10\0\0\0\x03\0\0\0\0\0\0\0{"call":"known"}\x01\x02\x03'
"""The bytes that the trainer's tests read and write, too."""

Frame = tuple[dict[str, Any], bytearray]


class Process:
    def __init__(self, **environment: str) -> None:
        self.socket, theirs = socket.socketpair()
        words = [sys.executable, "-m", "fulgurite.learner"]
        paths = os.pathsep.join(filter(None, [environment.pop("first", ""), str(PYTHON)]))
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self.process = subprocess.Popen(words, stdin=theirs.fileno(), stderr=subprocess.PIPE, env=environment)
        theirs.close()
        hello = read_frame(self.socket)
        assert hello is not None
        self.hello = hello[0]

    def call(self, header: dict[str, Any], body: bytes = b"") -> Frame:
        write_frame(self.socket, header, body)
        reply = read_frame(self.socket)
        assert reply is not None
        return reply

    def open(self, model: Path, **more: Any) -> dict[str, Any]:
        header = {
            "call": "open",
            "protocol": PROTOCOL,
            "model": str(model),
            "lora": None,
            "seed": 1,
            "device": "cpu",
            "dtype": "auto",
            "max_tokens_per_pass": 100,
            "gradient_checkpointing": "auto",
        }
        return self.call({**header, **more})[0]


@pytest.fixture
def process() -> Iterator[Process]:
    started = Process()
    yield started
    started.process.kill()
    started.process.wait()


def test_a_frame_has_the_bytes_that_the_trainer_knows() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(KNOWN)
    header, body = read_frame(theirs) or ({}, bytearray())
    assert (header, bytes(body)) == ({"call": "known"}, b"\x01\x02\x03")
    ours.sendall(KNOWN[:-1])
    ours.close()
    with pytest.raises(ConnectionError):
        read_frame(theirs)


def test_calls_are_answered_until_the_socket_closes(process: Process, model: Path) -> None:
    import torch

    assert process.hello == {"protocol": PROTOCOL}
    opened = process.open(model)
    assert (opened["device"], opened["dtype"], opened["packs"]) == ("cpu", "float32", True)
    unknown, _ = process.call({"call": "nonsense"})
    assert unknown["error"] == {"kind": "invalid_request", "message": "there is no call `nonsense`", "path": None}
    lists = {
        "positions": torch.tensor([2, 1]),
        "widths": torch.ones(2, dtype=torch.int64),
        "inputs": torch.zeros(2, dtype=torch.uint8),
        "tokens": torch.tensor([1, 2, 3]),
        "targets": torch.tensor([2, 3, 4]),
        "weights": torch.ones(3),
        "sampler_logprobs": torch.zeros(3),
        "advantages": torch.zeros(3),
    }
    header, body = process.call({"call": "forward"}, save(lists))
    assert (header, load(bytes(body))["logprobs"].shape) == ({}, (3,))
    loss = {"name": "cross_entropy", "configuration": {}}
    _, body = process.call({"call": "forward_backward", "loss": loss}, save(lists))
    assert set(load(bytes(body))) == {"logprobs", "entropies", "loss_sum"}
    process.socket.close()
    assert process.process.wait(60) == 0


def test_an_interrupt_is_left_to_the_trainer(process: Process, model: Path) -> None:
    process.open(model)
    process.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert "error" in process.call({"call": "nonsense"})[0]


def test_another_version_of_the_protocol_is_refused(process: Process, model: Path) -> None:
    error = process.open(model, protocol=PROTOCOL + 1)["error"]
    assert error["kind"] == "configuration"
    assert f"version {PROTOCOL + 1} of the protocol, and this package {PROTOCOL}" in error["message"]


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path, model: Path) -> None:
    (tmp_path / "peft.py").write_text("raise ModuleNotFoundError(\"No module named 'peft'\")")
    started = Process(first=str(tmp_path))
    message = started.open(model)["error"]["message"]
    assert "No module named 'peft'" in message
    assert f"{sys.executable} -m pip install 'fulgurite[torch]'" in message
    started.socket.close()
    started.process.wait(60)


def test_a_model_or_device_that_is_not_there_is_refused(process: Process, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "abacus", "architectures": ["AbacusForCausalLM"]}')
    error = process.open(tmp_path)["error"]
    assert error["kind"] == "configuration"
    assert "cannot open the model in" in error["message"]
    assert "abacus" in error["message"]
    error = process.open(tmp_path, device="cuda")["error"]
    assert "sees no CUDA device" in error["message"]
