"""The script that measures the learner on a GPU, in shapes that processors can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_measurements_of_a_gpu_run_on_processors_in_small() -> None:
    script = ROOT / "tests/device/learner.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run([sys.executable, script, "--tiny"], env=environment, stdout=subprocess.PIPE, check=True)
    first, precision, *rates = [json.loads(line) for line in ran.stdout.splitlines()]
    assert set(first) == {"device", "torch", "transformers", "peft"}
    assert precision["logprob_max"] < 0.1
    assert precision["gradient_cosine"] > 0.99
    assert [it["what"] for it in rates] == ["the learner", "a plain loop"] * 2
    assert [it["rows"] for it in rates] == ["prompts of their own"] * 2 + ["one prompt for a group"] * 2
    for it in rates:
        assert it["trained_tokens_per_second"] > 0
        assert 0 < it["share_of_peak"] < 1
    assert rates[2]["shared_tokens"] > 0 == rates[0]["shared_tokens"]
