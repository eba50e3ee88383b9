"""Tiny random models for the learner in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# The other environments of the tests have no PyTorch.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
if find_spec("torch"):
    import torch
    import transformers

SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}


def write_model(directory: Path, kind: str = "Qwen3", **more: Any) -> Path:
    torch.manual_seed(0)
    extra = {"head_dim": 8} if kind in ("Qwen3", "Gemma2") else {}
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **extra, "tie_word_embeddings": True, **more})
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "qwen3")


@pytest.fixture
def learner(model: Path) -> Callable[..., Any]:
    from fulgurite.learner.learner import Learner
    from fulgurite.learner.parts import Parts
    from fulgurite.learner.policy import Lora, Policy

    def made(rank: int = 0, limit: int = 40, path: Path = model, checkpointing: str = "off", **more: Any) -> Any:
        form = {key: more.pop(key) for key in ("rank_stabilized", "layers", "dropout", "start", "alpha") if key in more}
        lora = Lora(rank, form.pop("alpha", 8.0), more.pop("modules", None), **form) if rank else None
        torch.manual_seed(0)
        more["parts"] = Parts(**more.pop("parts", {}))
        policy = Policy(path, lora, 7, **{"device": "cpu", "dtype": "float32", **more})
        return Learner(policy, limit, checkpointing)

    return made


@pytest.fixture
def data() -> Callable[..., Any]:
    from fulgurite.learner.datums import Datums

    def made(lengths: list[int], *, policy: bool = False, width: int = 1, seed: int = 3) -> Any:
        draw = torch.Generator().manual_seed(seed)
        count = sum(lengths)
        slots = count * width
        mask = (torch.rand(slots, generator=draw) < 0.7).float()
        weights = mask if policy else mask * torch.randn(slots, generator=draw)
        return Datums.read(
            {
                "positions": torch.tensor(lengths),
                "widths": torch.full((len(lengths),), width),
                "inputs": torch.full((len(lengths),), int(policy), dtype=torch.uint8),
                "tokens": torch.randint(SHAPE["vocab_size"], (count,), generator=draw),
                "targets": torch.randint(SHAPE["vocab_size"], (slots,), generator=draw),
                "weights": weights,
                "sampler_logprobs": -4 + torch.randn(slots, generator=draw),
                "advantages": torch.randn(slots, generator=draw),
            }
        )

    return made
