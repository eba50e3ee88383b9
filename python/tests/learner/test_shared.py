"""Beginnings that sequences have in common, computed once: against the same learner with every sequence by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fulgurite.learner.datums import Datums
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.policy import Sharing
from fulgurite.learner.shared import SharedRows, block_mask, visible

from .conftest import SHAPE, write_model
from .test_learner import ADAM, Made, gradients, stir
from .test_losses import LOSSES

PROMPT = [5, 9, 2, 7, 11, 3, 8]
SEQUENCES = [
    [*PROMPT, 1, 4, 6],
    [*PROMPT, 1, 4, 9, 10],
    [2, 2, 30],
    [*PROMPT, 12],
    [*PROMPT[:3], 40, 41],
    PROMPT,
    [*PROMPT, 1, 4, 6],
    [2, 2, 31, 7],
]


def group(*, policy: bool = False, width: int = 1, weights: bool = False) -> Datums:
    draw = torch.Generator().manual_seed(3)
    lengths = [len(it) for it in SEQUENCES]
    slots = sum(lengths) * width
    mask = (torch.rand(slots, generator=draw) < 0.7).float()
    return Datums.read(
        {
            "positions": torch.tensor(lengths),
            "widths": torch.full((len(lengths),), width),
            "inputs": torch.full((len(lengths),), int(policy), dtype=torch.uint8),
            "tokens": torch.tensor([token for it in SEQUENCES for token in it]),
            "targets": torch.randint(SHAPE["vocab_size"], (slots,), generator=draw),
            "weights": mask * torch.rand(slots, generator=draw) if weights else mask,
            "sampler_logprobs": -4 + 0.3 * torch.randn(slots, generator=draw),
            "advantages": torch.randn(slots, generator=draw),
        }
    )


def both(learner: Made, **more: Any) -> tuple[Any, Any]:
    """Return learners of the same weights: one that shares, and one that does not."""
    made = [learner(**more), learner(**more)]
    for it in made:
        stir(it)
    assert made[0].policy.sharing == Sharing("sdpa", None)
    made[1].policy.sharing = Sharing(None, "a test")
    return made[0], made[1]


def near(found: Any, expected: Any) -> None:
    assert float((found - expected).norm()) <= 1e-5 * float(expected.norm()), (found, expected)


def agree(shared: Any, alone: Any, call: Any) -> None:
    found, expected = call(shared), call(alone)
    assert found.keys() == expected.keys()
    for name, it in expected.items():
        near(found[name], it)
    near(gradients(shared), gradients(alone))


@pytest.mark.parametrize("checkpointing", ["off", "on"])
@pytest.mark.parametrize("rank", [0, 3])
def test_every_losss_gradient_is_that_of_sequences_by_themselves(learner: Made, rank: int, checkpointing: str) -> None:
    shared, alone = both(learner, rank=rank, checkpointing=checkpointing)
    for name in ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"):
        loss, rows = TokenLoss(name, 0.8, 1.2, 0.5), group(policy=name != "cross_entropy")
        agree(shared, alone, lambda it, rows=rows, loss=loss: it.forward_backward(rows, loss))
    soft = group(width=3, weights=True)
    agree(shared, alone, lambda it: it.forward_backward(soft, TokenLoss("cross_entropy")))
    rows = group(weights=True)
    references = torch.tensor([[-20.0, -25.0], [-70.0, -30.0]], dtype=torch.float64)
    for of_pairs in LOSSES:
        compared = Comparisons(of_pairs, 0.5, [[0, 1, 1, 2], [2, 4, 4, 6]], references)
        agree(shared, alone, lambda it, compared=compared: it.forward_backward_comparisons(rows, compared))
    assert shared.optimizer_step(ADAM)[1]["learner_shared_tokens"] > 0
    assert alone.optimizer_step(ADAM)[1] == {}


def test_logprobs_under_the_weights_and_the_reference_are_those_of_sequences_by_themselves(learner: Made) -> None:
    shared, alone = both(learner, rank=3, limit=24)
    for it in (shared, alone):
        it.keep_reference()
        it.forward_backward(group(), TokenLoss("cross_entropy"))
        it.optimizer_step(ADAM)
    for name in ("forward", "forward_reference"):
        found, expected = (getattr(it, name)(group())["logprobs"] for it in (shared, alone))
        near(found, expected)


def test_saved_tokens_are_those_that_are_not_computed_again(learner: Made) -> None:
    made, rows = learner(limit=100), group()
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    whole = sum(len(it) for it in SEQUENCES)
    different = len({tuple(it[:end]) for it in SEQUENCES for end in range(1, len(it) + 1)})
    _, metrics = made.optimizer_step(ADAM)
    assert metrics == {"learner_shared_tokens": whole - different}
    # Of the next step, which has none.
    assert made.optimizer_step(ADAM)[1] == {}


def test_a_row_sees_what_comes_before_it_in_its_sequences_and_nothing_else() -> None:
    sequences = [torch.tensor(it) for it in SEQUENCES]
    rows = SharedRows.of(sequences)
    seen = visible(rows.ends)[0, 0]
    for sequence, path in zip(sequences, rows.paths, strict=True):
        assert rows.tokens[path].tolist() == sequence.tolist()
        assert rows.positions[path].tolist() == list(range(len(path)))
        for place, row in enumerate(path.tolist()):
            assert seen[row].nonzero()[:, 0].tolist() == path[: place + 1].tolist()


def test_attention_by_blocks_is_attention_by_the_mask() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    rows = SharedRows.of([torch.tensor(it) for it in SEQUENCES])
    draw = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, len(rows.tokens), 16, generator=draw) for _ in range(3))
    found = flex_attention(query, key, value, block_mask=block_mask(rows.ends))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=visible(rows.ends))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_models_whose_layers_see_other_tokens_share_nothing_and_say_which(learner: Made, tmp_path: Path) -> None:
    kinds: list[tuple[str, dict[str, Any], str | None]] = [
        ("Gemma2", {}, "layers of sliding_attention"),
        ("Mistral", {"sliding_window": 16}, "sliding_window of 16 tokens"),
        ("Mistral", {"sliding_window": None}, None),
        ("Llama", {}, None),
        ("Qwen2", {}, None),
    ]
    for kind, more, cause in kinds:
        made = learner(path=write_model(tmp_path / f"{kind}{len(more)}{cause}", kind, **more))
        assert made.policy.sharing.cause == cause, kind
        made.forward_backward(group(), TokenLoss("cross_entropy"))
        assert ("learner_shared_tokens" in made.optimizer_step(ADAM)[1]) == (cause is None), kind
