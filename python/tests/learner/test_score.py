"""A score for a head, against transformers' own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from fulgurite.learner.datums import Datums
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.protocol import LearnerError

Made = Callable[..., Any]

LENGTHS = [7, 9, 12, 5]
STEP = {
    "learning_rate": 0.05,
    "beta1": 0.9,
    "beta2": 0.95,
    "epsilon": 1e-8,
    "weight_decay": 0.0,
    "gradient_clip_norm": 0.0,
}


def rows() -> Datums:
    """Sequences that are scored at their last token."""
    draw = torch.Generator().manual_seed(5)
    count = sum(LENGTHS)
    weights = torch.zeros(count)
    weights[torch.tensor(LENGTHS).cumsum(0) - 1] = 1.0
    tokens = torch.randint(60, (count,), generator=draw)
    return Datums.read(
        {
            "positions": torch.tensor(LENGTHS),
            "widths": torch.ones(len(LENGTHS), dtype=torch.long),
            "inputs": torch.zeros(len(LENGTHS), dtype=torch.uint8),
            "tokens": tokens,
            "targets": tokens,
            "weights": weights,
            "sampler_logprobs": torch.zeros(count),
            "advantages": torch.zeros(count),
        }
    )


def compared(centering: float = 0.0) -> Comparisons:
    loss = {"name": "bradley_terry", "centering": centering}
    return Comparisons(loss, 0.5, [[0, 1, 1, 2], [2, 3, 3, 4]], torch.zeros(2, 2, dtype=torch.float64))


def last(made: Any) -> torch.Tensor:
    found = made.forward(rows())["logprobs"]
    return torch.as_tensor(found)[torch.tensor(LENGTHS).cumsum(0) - 1]


@pytest.mark.parametrize("kind", ["Qwen3", "Llama"])
def test_scores_and_their_gradient_are_those_of_transformers(kind: str, learner: Made, tmp_path: Path) -> None:
    from tests.learner.conftest import write_model

    source = write_model(tmp_path / "model", kind)
    made = learner(path=source, head="score")
    assert not last(made).any(), "it begins at 0"
    for _ in range(3):
        made.forward_backward_comparisons(rows(), compared(0.01))
        made.optimizer_step(STEP)
    made.save_weights(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["architectures"] == [f"{kind}ForSequenceClassification"]
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert theirs.config.num_labels == 1
    sequences = torch.split(rows().tokens, LENGTHS)
    scores = torch.cat([theirs(input_ids=it[None]).logits[0] for it in sequences])
    assert scores.abs().max() > 0.01
    assert torch.allclose(last(made), scores.detach(), atol=1e-5)

    again = learner(path=tmp_path / "saved")
    again.forward_backward_comparisons(rows(), compared(0.25))
    chosen, rejected = scores[0::2], scores[1::2]
    loss = -torch.nn.functional.logsigmoid(chosen - rejected).mean() + 0.25 * ((chosen + rejected) ** 2).mean()
    loss.backward()
    expected = dict(theirs.named_parameters())
    for name, it in again.policy.trained.items():
        assert torch.allclose(it.grad, expected[name].grad, atol=1e-4, rtol=1e-3), name


def test_losses_of_tokens_and_of_scores_are_told_apart(learner: Made, model: Path) -> None:
    scoring, speaking = learner(head="score"), learner()
    with pytest.raises(LearnerError, match="its head is a score"):
        scoring.forward_backward(rows(), TokenLoss("cross_entropy"))
    with pytest.raises(LearnerError, match="a loss of scores is for a model"):
        speaking.forward_backward_comparisons(rows(), compared())
    with pytest.raises(LearnerError, match="leave"):
        learner(rank=2, head="score")
