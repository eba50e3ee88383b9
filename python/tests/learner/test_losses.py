"""Values and slopes of losses against automatic differentiation of their formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fulgurite.learner.losses import Comparisons, TokenLoss

LOW, HIGH = 0.8, 1.2
TRL = json.loads((Path(__file__).parents[3] / "tests/vectors/trl/losses.json").read_text())


def written_out(loss: TokenLoss, logprob: Any, weight: Any, sampler: Any, advantage: Any) -> Any:
    ratio = (logprob - sampler).exp()
    if loss.name == "cross_entropy":
        return -weight * logprob
    if loss.name == "importance_sampling":
        return -ratio * advantage
    if loss.name == "ppo":
        return -torch.minimum(ratio * advantage, ratio.clamp(loss.low, loss.high) * advantage)
    if loss.name == "ppo_dual_clip":
        limited = ratio.clamp(max=loss.ratio_limit)
        return -torch.minimum(limited * advantage, ratio.clamp(loss.low, loss.high) * advantage)
    if loss.name == "sapo":
        tau = torch.where(advantage > 0, loss.positive, loss.negative)
        return -torch.sigmoid(tau * (ratio - 1)) * 4 / tau * advantage
    if loss.name == "cispo":
        return -ratio.detach().clamp(loss.low, loss.high) * logprob * advantage
    return -(logprob * advantage - loss.beta / 2 * (logprob - sampler) ** 2)


@pytest.mark.parametrize(
    "name", ["cross_entropy", "importance_sampling", "ppo", "ppo_dual_clip", "sapo", "cispo", "dro"]
)
def test_a_tokens_slope_is_the_derivative(name: str) -> None:
    loss = TokenLoss(name, LOW, HIGH, 0.5, ratio_limit=1.4, positive=1.0, negative=1.05)
    draw = torch.Generator().manual_seed(1)
    logprob, sampler, weight, advantage = (torch.randn(200, generator=draw) for _ in range(4))
    logprob = (sampler + 0.3 * logprob).requires_grad_()
    value, slope = loss.of_tokens(logprob.detach(), weight, sampler, advantage)
    expected = written_out(loss, logprob, weight, sampler, advantage)
    (gradient,) = torch.autograd.grad(expected.sum(), logprob)
    torch.testing.assert_close(value.float(), expected.detach())
    torch.testing.assert_close(slope, gradient)


def test_a_sequences_ratio_is_the_mean_of_its_tokens() -> None:
    # Distances 0.3 and 0.1: their mean is 0.2. The other datum's is its own.
    logprobs, sampler = torch.tensor([-0.7, -1.9, -5.0]), torch.tensor([-1.0, -2.0, -5.0])
    datum, advantages = torch.tensor([0, 0, 1]), torch.tensor([3.0, -1.0, 2.0])
    value, slope = TokenLoss("gspo", LOW, HIGH).of_sequences(logprobs, sampler, advantages, datum, 2)
    ratio = torch.tensor(0.2).exp()
    torch.testing.assert_close(value.float(), torch.tensor([-3.6, float(ratio), -2.0]))
    torch.testing.assert_close(slope, torch.tensor([0.0, float(ratio), -2.0]))


def pair_loss(loss: dict[str, Any], sums: Any, weights: Any, references: Any) -> Any:
    log_sigmoid = torch.nn.functional.logsigmoid
    ratios, means = sums - references, sums / weights
    name, beta = loss["name"], loss["beta"]
    if name == "with_others":
        whole = pair_loss({**loss, "name": loss["others"]["of"]}, sums, weights, references)
        for other in loss["others"]["list"]:
            whole = whole + other["weight"] * pair_loss(other["loss"], sums, weights, references)
        return whole
    margin = beta * (ratios[:, 0] - ratios[:, 1])
    if name == "hinge":
        return torch.relu(1 - margin)
    if name == "robust":
        wrong = loss["label_smoothing"]
        return (wrong * log_sigmoid(-margin) - (1 - wrong) * log_sigmoid(margin)) / (1 - 2 * wrong)
    if name == "apo_zero":
        return 1 - torch.sigmoid(beta * ratios[:, 0]) + torch.sigmoid(beta * ratios[:, 1])
    if name == "apo_down":
        return torch.sigmoid(beta * ratios[:, 0]) + 1 - torch.sigmoid(margin)
    if name == "simpo":
        return -log_sigmoid(beta * (means[:, 0] - means[:, 1]) - loss["gamma"])
    if name == "dpo":
        x, wrong = beta * (ratios[:, 0] - ratios[:, 1]), loss["label_smoothing"]
        return -(1 - wrong) * log_sigmoid(x) - wrong * log_sigmoid(-x)
    if name == "ipo":
        return (ratios[:, 0] / weights[:, 0] - ratios[:, 1] / weights[:, 1] - 1 / (2 * beta)) ** 2
    if name == "orpo":
        odds = means - (1 - means.exp()).log()
        return -means[:, 0] - beta * log_sigmoid(odds[:, 0] - odds[:, 1])
    chosen = loss["desirable_weight"] * (1 - torch.sigmoid(beta * (ratios[:, 0] - loss["baseline"])))
    rejected = loss["undesirable_weight"] * (1 - torch.sigmoid(beta * (loss["baseline"] - ratios[:, 1])))
    return chosen + rejected


LOSSES = [
    {"name": "dpo", "beta": 0.1, "label_smoothing": 0.0},
    {"name": "dpo", "beta": 0.5, "label_smoothing": 0.1},
    {"name": "ipo", "beta": 0.1},
    {"name": "orpo", "beta": 0.25},
    {"name": "hinge", "beta": 0.1},
    {"name": "robust", "beta": 0.5, "label_smoothing": 0.1},
    {"name": "apo_zero", "beta": 0.25},
    {"name": "apo_down", "beta": 0.25},
    {"name": "simpo", "beta": 2.0, "gamma": 0.5},
    {"name": "kto", "beta": 0.1, "baseline": 0.5, "desirable_weight": 1.0, "undesirable_weight": 1.5},
    {
        "name": "with_others",
        "beta": 0.1,
        "label_smoothing": 0.0,
        "others": {"of": "dpo", "list": [{"loss": {"name": "apo_zero", "beta": 0.25}, "weight": 0.5}]},
    },
]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_comparisons_slope_is_the_derivative(loss: dict[str, Any]) -> None:
    draw = torch.Generator().manual_seed(2)
    sums = -0.5 - 20 * torch.rand(8, 2, generator=draw, dtype=torch.float64)
    references = sums + torch.randn(8, 2, generator=draw, dtype=torch.float64)
    weights = torch.randint(1, 9, (8, 2), generator=draw).double()
    compared = Comparisons(loss, 0.5, [[2 * i, 2 * i + 1, 2 * i + 1, 2 * i + 2] for i in range(8)], references)
    value, slope = compared.cost(list(range(8)), sums, weights)
    sums.requires_grad_()
    expected = 0.5 * pair_loss(loss, sums, weights, references)
    (gradient,) = torch.autograd.grad(expected.sum(), sums)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(slope, gradient)


def test_an_answer_may_be_alone_where_the_loss_can_do_without() -> None:
    one = torch.tensor([[-1.0, -2.0]], dtype=torch.float64)
    for loss in LOSSES:
        alone = Comparisons(loss, 1.0, [[0, 1, -1, -1]], torch.zeros(1, 2, dtype=torch.float64))
        value, slope = alone.cost([0], one, torch.ones_like(one))
        assert float(slope[0, 1]) == 0
        assert (float(value) != 0) == (loss["name"] == "kto")


@pytest.mark.parametrize("loss", LOSSES)
def test_certain_and_hopeless_answers_have_finite_losses(loss: dict[str, Any]) -> None:
    pairs = torch.tensor([[0, 0], [0, -1e4], [-1e4, 0], [-1e9, -1e9], [-1e-12, -1e-12]], dtype=torch.float64)
    compared = Comparisons(loss, 1.0, [[0, 1, 1, 2]] * 5, -torch.ones(5, 2, dtype=torch.float64))
    for found in compared.cost(list(range(5)), pairs, torch.ones_like(pairs)):
        assert bool(found.isfinite().all()), (loss, found)


@pytest.mark.parametrize("name", TRL["preferences"])
def test_comparisons_have_the_values_and_gradients_of_trl(name: str) -> None:
    theirs = TRL["preferences"][name]
    numbers = theirs["parameters"]
    named = numbers.get("loss_type", [name])
    kinds = [{**numbers, "name": "dpo" if it == "sigmoid" else it} for it in named if it != "sft"]
    kinds = [{"label_smoothing": 0.0, **it} for it in kinds]
    shares = numbers.get("weights", [1.0] * len(named))
    weighed = [share for share, it in zip(shares, named, strict=True) if it != "sft"]
    loss: dict[str, Any] = kinds[0]
    if len(kinds) > 1:
        others = zip(kinds[1:], weighed[1:], strict=True)
        more = [{"loss": it, "weight": share / weighed[0]} for it, share in others]
        loss = {**loss, "name": "with_others", "others": {"of": loss["name"], "list": more}}
    pairs = [[pair["chosen"], pair["rejected"]] for pair in TRL["pairs"]]
    if "sft" in named:
        tokens = sum(len(chosen["logprobs"]) for chosen, _ in pairs)
        likelihood = {"of": loss["name"], "scale": shares[named.index("sft")] / tokens}
        loss = {**loss, "name": "with_likelihood", "likelihood": likelihood}
    tail = numbers.get("ld_alpha", 1.0)
    weights = []
    for pair in pairs:
        shared = min(len(side["logprobs"]) for side in pair)
        weights.append(
            [torch.tensor([1.0 if at < shared else tail for at in range(len(side["logprobs"]))]) for side in pair]
        )
    weights = [[it.double() for it in pair] for pair in weights]

    def sums(key: str) -> Any:
        rows = [
            [float((w * torch.tensor(side[key]).double()).sum()) for w, side in zip(*of, strict=True)]
            for of in zip(weights, pairs, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.float64)

    counts = torch.tensor([[float(it.sum()) for it in pair] for pair in weights], dtype=torch.float64)
    ranges = [[2 * i, 2 * i + 1, 2 * i + 1, 2 * i + 2] for i in range(len(pairs))]
    compared = Comparisons(loss, weighed[0] / len(pairs), ranges, sums("reference"))
    value, slope = compared.cost(list(range(len(pairs))), sums("logprobs"), counts)
    assert abs(float(value.sum()) - theirs["value"]) < 1e-6
    for answer, gradient in enumerate(theirs["gradient"]):
        place, side = divmod(answer, 2)
        torch.testing.assert_close(
            weights[place][side] * slope[place, side], torch.tensor(gradient, dtype=torch.float64)
        )


@pytest.mark.parametrize("name", ["dual_clip", "sapo", "sapo_other_temperatures"])
def test_tokens_have_the_values_and_gradients_of_trl(name: str) -> None:
    theirs = TRL["policies"][name]
    numbers = theirs["parameters"]
    loss = TokenLoss("ppo_dual_clip", 0.8, 1.28, ratio_limit=1.5)
    if name != "dual_clip":
        tau = (numbers.get("sapo_temperature_pos", 1.0), numbers.get("sapo_temperature_neg", 1.05))
        loss = TokenLoss("sapo", positive=tau[0], negative=tau[1])
    sum_of_values = 0.0
    for rollout, gradient in zip(TRL["rollouts"], theirs["gradient"], strict=True):
        logprobs, sampler = torch.tensor(rollout["logprobs"]), torch.tensor(rollout["sampler"])
        share = 1 / (len(logprobs) * len(TRL["rollouts"]))
        advantages = torch.full_like(logprobs, rollout["advantage"])
        value, slope = loss.of_tokens(logprobs, torch.ones_like(logprobs), sampler, advantages)
        sum_of_values += share * float(value.sum())
        torch.testing.assert_close(share * slope, torch.tensor(gradient), atol=1e-6, rtol=1e-5)
    assert abs(sum_of_values - theirs["value"]) < 1e-5


@pytest.mark.parametrize("name", TRL["rewards"])
def test_scores_have_the_values_and_gradients_of_trl(name: str) -> None:
    theirs = TRL["rewards"][name]
    scores = torch.tensor(TRL["scores"], dtype=torch.float64)
    loss = {"name": "bradley_terry", "centering": theirs["center_rewards_coefficient"] or 0.0}
    ranges = [[2 * i, 2 * i + 1, 2 * i + 1, 2 * i + 2] for i in range(len(scores))]
    compared = Comparisons(loss, 1 / len(scores), ranges, torch.zeros_like(scores))
    value, slope = compared.cost(list(range(len(scores))), scores, torch.ones_like(scores))
    assert abs(float(value.sum()) - theirs["value"]) < 1e-6
    torch.testing.assert_close(slope, torch.tensor(theirs["gradient"], dtype=torch.float64))
