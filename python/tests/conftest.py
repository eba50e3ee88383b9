"""The real server over real sockets: FULGURITE_PROGRAM names the program, FULGURITE_MODEL a model's directory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fulgurite.client import AsyncClient, Client

PYTHON = Path(__file__).resolve().parents[1]
LONGEST_START = 120.0


class Server:
    """`fulgurite serve` in a directory of its own, on a port that it keeps over restarts."""

    def __init__(self, directory: Path, admin_key: str | None = None) -> None:
        self.directory = directory
        self.program = os.environ["FULGURITE_PROGRAM"]
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("FULGURITE_")}
        self.environment["PYTHONPATH"] = str(PYTHON)
        if admin_key is not None:
            self.environment["FULGURITE_ADMIN_KEY"] = admin_key
        self.listen = "127.0.0.1:0"
        self.store = f"sqlite://{directory / 'store.db'}"
        self.url = ""
        self.start()

    def start(self) -> None:
        ready, log = self.directory / "ready.json", self.directory / "serve.log"
        ready.unlink(missing_ok=True)
        words = ["serve", "--listen", self.listen, "--store", self.store, "--ready-file", str(ready)]
        words += ["--model", f"tiny=embedded:{os.environ['FULGURITE_MODEL']}"]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [self.program, *words], env=self.environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + LONGEST_START
        while not ready.exists():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.01)
        self.url = json.loads(ready.read_text())["url"]
        self.listen = self.url.removeprefix("http://")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def command(self, *words: str) -> str:
        ran = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def play(self, agent: str) -> None:
        """Work the queue off with a warm agent of this text."""
        script = self.directory / "agent.py"
        script.write_text(agent)
        self.command("run", "--server", self.url, "--until-idle", "--warm", "--", sys.executable, str(script))


class Waited:
    """An async client whose coroutines are waited for, so that both clients are tested by the same words."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(url, **options)

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **options: self._loop.run_until_complete(getattr(self._client, name)(*words, **options))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()


@pytest.fixture(params=[Client, Waited], ids=["sync", "async"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    made = request.param(server.url)
    yield made
    made.close()
