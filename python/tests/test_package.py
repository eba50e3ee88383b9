"""The package's own files: one source for what stands in two places, types and lints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def test_the_file_for_agents_is_the_module() -> None:
    assert (PYTHON / "fulgurite_agent.py").read_text() == (PYTHON / "fulgurite" / "agent.py").read_text()


def test_the_async_client_is_the_sync_one_with_await() -> None:
    sys.path.insert(0, str(PYTHON))
    from make_asynchronous import asynchronous

    written = (PYTHON / "fulgurite" / "client" / "asynchronous.py").read_text()
    assert written == asynchronous(), "python3 python/make_asynchronous.py writes it"


def test_the_module_is_the_command() -> None:
    path = f"{Path(os.environ['FULGURITE_PROGRAM']).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "PATH": path}
    ran = subprocess.run(
        [sys.executable, "-m", "fulgurite", "--version"], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "fulgurite"), ran.stderr


@pytest.mark.parametrize("words", [["mypy"], ["ruff", "check", "python"], ["ruff", "format", "--check", "python"]])
def test_types_and_lints_have_nothing_to_say(words: list[str]) -> None:
    ran = subprocess.run([sys.executable, "-m", *words], cwd=PYTHON.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
