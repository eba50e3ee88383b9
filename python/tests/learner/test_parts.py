"""Patterns and parts, as the embedded learner has them (`backends/src/training/trained_parts.rs`)."""

from __future__ import annotations

import pytest
from fulgurite.learner.parts import Parts
from fulgurite.learner.protocol import LearnerError

NAMES = [
    "model.embed_tokens.weight",
    "model.layers.1.self_attn.q_proj.weight",
    "model.layers.1.self_attn.q_norm.weight",
    "model.layers.11.mlp.up_proj.weight",
    "model.norm.weight",
    "lm_head.weight",
]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("layers.1", [0, 1, 1, 0, 0, 0]),
        ("layers.0-11", [0, 1, 1, 1, 0, 0]),
        ("layers.*.mlp", [0, 0, 0, 1, 0, 0]),
        ("model.embed_tokens", [1, 0, 0, 0, 0, 0]),
        ("norm", [0, 0, 0, 0, 1, 0]),
        ("model", [1, 1, 1, 1, 1, 0]),
    ],
)
def test_patterns_are_components_one_after_another(pattern: str, expected: list[int]) -> None:
    rates = Parts(frozen=[pattern]).rates(NAMES)
    assert [int(rate == 0) for rate in rates.values()] == expected


@pytest.mark.parametrize("wrong", ["layers.2", "embed", "1.layers", "", "layers.1.self_attn.q_proj.weight.more"])
def test_a_pattern_of_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(LearnerError, match="no tensor that is trained"):
        Parts(frozen=[wrong]).rates(NAMES)


def test_factors_are_by_part() -> None:
    factors = {"embeddings": 0.1, "head": 0.5, "norms": 2.0, "layers": 3.0, "lora_b": 1.0}
    assert list(Parts(factors, ["layers.11"]).rates(NAMES).values()) == [0.1, 3.0, 2.0, 0.0, 2.0, 0.5]
    adapter = ["base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", "base_model.model.lm_head.lora_B.weight"]
    assert list(Parts({"head": 2.0, "lora_b": 16.0}).rates(adapter).values()) == [1.0, 32.0]
