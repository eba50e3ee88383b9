"""Several processes that train one model, over the socket, against the learner of one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from fulgurite.learner.datums import Datums
from fulgurite.learner.files import DIGEST_LIST
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.protocol import PROTOCOL, read_frame, write_frame

from .test_learner import ADAM, LENGTHS, Made
from .test_shared import group

PAIR = {"name": "dpo", "beta": 0.3, "label_smoothing": 0.0}


class Process:
    """A learner as the trainer starts it."""

    def __init__(self, model: Path, rank: int, checkpointing: str, **more: Any) -> None:
        self._connection, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, "-m", "fulgurite.learner"], stdin=theirs.fileno())
        theirs.close()
        assert read_frame(self._connection) == ({"protocol": PROTOCOL}, bytearray())
        opened, _ = self.call(
            "open",
            protocol=PROTOCOL,
            model=str(model),
            lora={"rank": rank, "alpha": 8.0, "modules": None} if rank else None,
            seed=7,
            device="cpu",
            dtype="float32",
            max_tokens_per_pass=40,
            gradient_checkpointing=checkpointing,
            processes=2,
            **more,
        )
        assert opened["processes"] == 2

    def call(self, call: str, body: bytes = b"", **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        write_frame(self._connection, {"call": call, **fields}, body)
        frame = read_frame(self._connection)
        assert frame is not None, "it has ended"
        return frame[0], safetensors.torch.load(bytes(frame[1])) if frame[1] else {}

    def ends(self) -> int:
        assert read_frame(self._connection) is None
        return self.process.wait()

    def others(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]

    def close(self) -> None:
        self._connection.close()
        self.process.wait()


@pytest.fixture
def started(model: Path) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def start(rank: int, checkpointing: str = "off", **more: Any) -> Process:
        made.append(Process(model, rank, checkpointing, **more))
        return made[-1]

    yield start
    for it in made:
        it.close()


def sent(data: Datums, **more: Any) -> bytes:
    names = ("tokens", "targets", "weights", "sampler_logprobs", "advantages")
    lists = {name: torch.tensor(getattr(data, name)) for name in ("positions", "widths")}
    kinds = torch.tensor([int(it) for it in data.inputs], dtype=torch.uint8)
    whole: bytes = safetensors.torch.save(
        {**lists, "inputs": kinds, **{name: getattr(data, name) for name in names}, **more}
    )
    return whole


def near(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, it in expected.items():
        torch.testing.assert_close(found[name], it, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(("rank", "checkpointing"), [(0, "off"), (3, "on")])
def test_two_processes_learn_what_one_learns(
    started: Made, learner: Made, data: Made, tmp_path: Path, rank: int, checkpointing: str
) -> None:
    two, one = started(rank, checkpointing), learner(rank)
    two.call("keep_reference")
    one.keep_reference()
    rows, policy_rows = data(LENGTHS), data(LENGTHS, policy=True)
    ranges = torch.tensor([[0, 1, 1, 2], [2, 4, 4, 6]])
    references = torch.tensor([[-20.0, -40.0], [-90.0, -20.0]], dtype=torch.float64)
    compared = Comparisons(PAIR, 0.5, ranges.tolist(), references)
    supervised = {"name": "cross_entropy", "configuration": {}}
    clipped = {"name": "ppo", "configuration": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}}
    for _ in range(2):
        near(
            two.call("forward_backward", sent(rows), loss=supervised)[1],
            one.forward_backward(rows, TokenLoss.read(supervised)),
        )
        near(
            two.call("forward_backward", sent(policy_rows), loss=clipped)[1],
            one.forward_backward(policy_rows, TokenLoss.read(clipped)),
        )
        body = sent(rows, comparisons=ranges, references=references)
        near(
            two.call("forward_backward_comparisons", body, loss=PAIR, scale=0.5)[1],
            one.forward_backward_comparisons(rows, compared),
        )
        near(
            two.call("forward_backward", sent(group()), loss=supervised)[1],
            one.forward_backward(group(), TokenLoss.read(supervised)),
        )
        norm, metrics = one.optimizer_step(ADAM)
        assert metrics["learner_shared_tokens"] > 0
        stepped, _ = two.call("optimizer_step", parameters=ADAM)
        assert stepped["gradient_norm"] == pytest.approx(norm, rel=1e-5)
        assert stepped["metrics"]["learner_shared_tokens"] > 0
    for name in ("forward", "forward_reference"):
        near(two.call(name, sent(rows))[1], getattr(one, name)(rows))

    # A checkpoint of two is one of one, and the other way round.
    two.call("save_checkpoint", directory=str(tmp_path / "two"))
    one.save_checkpoint(tmp_path / "one")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    one.load_checkpoint(tmp_path / "two")
    assert two.call("load_checkpoint", directory=str(tmp_path / "one"))[0] == {}
    one.forward_backward(rows, TokenLoss.read(supervised))
    two.call("forward_backward", sent(rows), loss=supervised)
    norm, _ = one.optimizer_step(ADAM)
    assert two.call("optimizer_step", parameters=ADAM)[0]["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    near(two.call("forward", sent(rows))[1], one.forward(rows))


def test_what_all_refuse_is_an_error_and_a_process_that_dies_ends_all(
    started: Made, data: Made, tmp_path: Path
) -> None:
    two, rows = started(3), data(LENGTHS)
    wrong = data(LENGTHS)
    wrong.tokens[3] = 61
    for call, body, more, kind in [
        ("forward", sent(wrong), {}, "invalid_request"),
        ("load_checkpoint", b"", {"directory": str(tmp_path / "none")}, "files"),
        ("save_weights", b"", {"directory": str(tmp_path)}, "files"),
    ]:
        assert two.call(call, body, **more)[0]["error"]["kind"] == kind
    assert "logprobs" in two.call("forward", sent(rows))[1]

    (other,) = two.others()
    os.kill(other, signal.SIGKILL)
    error = two.call("forward", sent(rows))[0]["error"]
    assert error["kind"] == "internal", error
    assert "process 1 of the torch learner ended (killed by SIGKILL" in error["message"], error
    assert two.ends() == 1


@pytest.mark.parametrize("call", ["forward", "save_checkpoint"])
def test_a_process_that_is_stopped_does_not_block_the_run_for_ever(
    started: Made, data: Made, tmp_path: Path, call: str
) -> None:
    two = started(3, longest_silence=4.0)
    (other,) = two.others()
    # Half a silence is none.
    os.kill(other, signal.SIGSTOP)
    threading.Timer(2.0, os.kill, (other, signal.SIGCONT)).start()
    assert "logprobs" in two.call("forward", sent(data(LENGTHS)))[1]

    os.kill(other, signal.SIGSTOP)
    directory = tmp_path / "checkpoint"
    called_at = time.monotonic()
    error = two.call(call, sent(data(LENGTHS)), directory=str(directory))[0]["error"]
    assert time.monotonic() - called_at < 30
    assert error["kind"] == "internal"
    for words in (
        "process 1 of the torch learner has given no sign of life for 4 s (longest_silence)",
        f"process id {other} was killed",
        "goes on from its checkpoint by --resume",
    ):
        assert words in error["message"], error
    assert two.ends() == 1
    # Nothing is half-written: the first process may have written all of it.
    assert not directory.with_name("checkpoint.partial").exists()
    assert not directory.exists() or (directory / DIGEST_LIST).exists()
