"""Losses of tokens and of comparisons, by the formulas of the trainer's own engine.

Each gives a value, and the slope by the logprob with which the backward pass begins. A target whose weight or mask is 0 never
comes here, whatever its other numbers are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fulgurite.learner.protocol import Fault, LearnerError

GREATEST_MEAN_LOGPROB = -1e-6
"""Greatest mean logprob whose odds are told apart from certainty, which has none."""


@dataclass
class TokenLoss:
    """A loss of tokens, by its name in the Tinker API."""

    name: str
    low: float = 0.0
    high: float = 0.0
    beta: float = 0.0
    ratio_limit: float = 0.0
    positive: float = 1.0
    negative: float = 1.0

    @classmethod
    def read(cls, fields: dict[str, Any]) -> TokenLoss:
        """Take a loss from a header."""
        name, numbers = fields["name"], fields["configuration"]
        if name not in ("cross_entropy", "importance_sampling", "ppo", "ppo_dual_clip", "sapo", "cispo", "dro", "gspo"):
            raise LearnerError(Fault.INVALID_REQUEST, f"there is no loss `{name}`")
        return cls(
            name,
            low=numbers.get("clip_low_threshold", 0.0),
            high=numbers.get("clip_high_threshold", 0.0),
            beta=numbers.get("beta", 0.0),
            ratio_limit=numbers.get("ratio_limit", 0.0),
            positive=numbers.get("temperature_positive", 1.0),
            negative=numbers.get("temperature_negative", 1.0),
        )

    @property
    def needs_all_logprobs(self) -> bool:
        """Whether a token's loss follows from the logprobs of all of its datum's trained tokens."""
        return self.name == "gspo"

    def of_tokens(
        self, logprobs: Tensor, weights: Tensor, sampler: Tensor, advantages: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return value (in float64) and slope of each token, for losses of single tokens."""
        if self.name == "cross_entropy":
            return -weights.double() * logprobs.double(), -weights
        ratio = (logprobs - sampler).exp()
        if self.name == "importance_sampling":
            return -ratio.double() * advantages.double(), -ratio * advantages
        if self.name == "ppo":
            return self._clipped(ratio, advantages)
        if self.name == "ppo_dual_clip":
            value, slope = self._clipped(ratio.clamp(max=self.ratio_limit), advantages)
            return value, slope.where(ratio <= self.ratio_limit, 0.0)
        if self.name == "sapo":
            tau = torch.where(advantages > 0, self.positive, self.negative)
            gate = torch.sigmoid(tau * (ratio - 1))
            return -(4 / tau * gate).double() * advantages.double(), -4 * gate * (1 - gate) * ratio * advantages
        if self.name == "cispo":
            limited = ratio.clamp(self.low, self.high)
            return -limited.double() * logprobs.double() * advantages.double(), -limited * advantages
        distance = logprobs - sampler
        squared = (logprobs.double() - sampler.double()) ** 2
        value = -(logprobs.double() * advantages.double() - self.beta / 2 * squared)
        return value, -(advantages - self.beta * distance)

    def of_sequences(
        self, logprobs: Tensor, sampler: Tensor, advantages: Tensor, datum: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        """As `of_tokens`, of one ratio for all tokens of a datum; `datum` is the place of each token's, below `count`."""
        distance = logprobs.double() - sampler.double()
        zeros = torch.zeros(count, dtype=torch.float64, device=distance.device)
        sums = zeros.index_add(0, datum, distance)
        tokens = zeros.index_add(0, datum, torch.ones_like(distance))
        ratio = (sums / tokens).exp().float()[datum]
        return self._clipped(ratio, advantages)

    def _clipped(self, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
        whole, limited = ratio * advantages, ratio.clamp(self.low, self.high) * advantages
        slope = torch.where(whole <= limited, -ratio * advantages, torch.zeros_like(ratio))
        return -torch.minimum(whole, limited).double(), slope


@dataclass
class Comparisons:
    """Better and worse answers under a loss. All numbers are float64."""

    loss: dict[str, Any]
    scale: float
    ranges: list[list[int]]
    """Of each comparison: begin and end of the chosen answer's datums, then of the rejected one's; -1 for a missing one."""
    references: Tensor

    def datums(self, place: int) -> range:
        """Return the datums of a comparison, which follow each other."""
        known = [number for number in self.ranges[place] if number >= 0]
        return range(min(known), max(known))

    def cost(self, places: list[int], logprobs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of some comparisons, and its slope by the logprobs of their chosen and rejected answers.

        `logprobs` and `weights` are the weighted sums of answers: `[comparisons, 2]`.
        """
        there = torch.tensor([[self.ranges[place][0] >= 0, self.ranges[place][2] >= 0] for place in places])
        there = there.to(logprobs.device)
        ratios = logprobs - self.references[places].to(logprobs.device)
        loss, likelihood = self.loss, 0.0
        if loss["name"] == "with_likelihood":
            likelihood = loss["likelihood"]["scale"]
            loss = {**loss, "name": loss["likelihood"]["of"]}
        others: list[dict[str, Any]] = []
        if loss["name"] == "with_others":
            others = loss["others"]["list"]
            loss = {**loss, "name": loss["others"]["of"]}
        if loss["name"] == "kto":
            values, slopes = self._kto(ratios, there)
        else:
            weights = weights.clamp(min=torch.finfo(torch.float64).tiny)
            values, slopes = _pairs(loss, logprobs, weights, ratios)
            for other in others:
                value, slope = _pairs(other["loss"], logprobs, weights, ratios)
                values, slopes = values + other["weight"] * value, slopes + other["weight"] * slope
            both = there.all(1)
            values, slopes = values.where(both, 0.0), slopes.where(both[:, None], 0.0)
        values, slopes = self.scale * values, self.scale * slopes
        if likelihood:
            chosen = there[:, 0]
            values = values - likelihood * logprobs[:, 0].where(chosen, 0.0)
            slopes = slopes - likelihood * torch.stack([chosen, torch.zeros_like(chosen)], 1)
        return values, slopes

    def _kto(self, ratios: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        beta, baseline = self.loss["beta"], self.loss["baseline"]
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64, device=ratios.device)
        weights = torch.tensor(
            [self.loss["desirable_weight"], self.loss["undesirable_weight"]], dtype=torch.float64, device=ratios.device
        )
        share = torch.sigmoid(beta * signs * (ratios - baseline))
        values = weights * (1 - share)
        slopes = -signs * weights * beta * share * (1 - share)
        return values.where(there, 0.0).sum(1), slopes.where(there, 0.0)


def _pairs(loss: dict[str, Any], logprobs: Tensor, weights: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and slopes of losses that need both answers."""
    name = loss["name"]
    if name == "bradley_terry":
        x, total, centering = logprobs[:, 0] - logprobs[:, 1], logprobs.sum(1), loss["centering"]
        slope, centered = torch.sigmoid(-x), 2 * centering * total
        return centering * total**2 - _log_sigmoid(x), torch.stack([centered - slope, centered + slope], 1)
    beta = loss["beta"]
    if name in ("dpo", "hinge", "robust"):
        value, slope = _of_margin(loss, beta * (ratios[:, 0] - ratios[:, 1]))
        return value, torch.stack([beta * slope, -beta * slope], 1)
    if name == "apo_zero":
        share = torch.sigmoid(beta * ratios)
        signs = torch.tensor([-1.0, 1.0], dtype=ratios.dtype, device=ratios.device)
        return 1 - share[:, 0] + share[:, 1], signs * beta * share * (1 - share)
    if name == "apo_down":
        down, apart = torch.sigmoid(beta * ratios[:, 0]), torch.sigmoid(beta * (ratios[:, 0] - ratios[:, 1]))
        slope = beta * apart * (1 - apart)
        return down + 1 - apart, torch.stack([beta * down * (1 - down) - slope, slope], 1)
    if name == "ipo":
        means = ratios / weights
        distance = means[:, 0] - means[:, 1] - 1 / (2 * beta)
        return distance**2, torch.stack([2 * distance / weights[:, 0], -2 * distance / weights[:, 1]], 1)
    means = logprobs / weights
    if name == "simpo":
        x = beta * (means[:, 0] - means[:, 1]) - loss["gamma"]
        slope = beta * torch.sigmoid(-x)
        return -_log_sigmoid(x), torch.stack([-slope / weights[:, 0], slope / weights[:, 1]], 1)
    if name != "orpo":
        raise LearnerError(Fault.INVALID_REQUEST, f"there is no loss of comparisons `{name}`")
    odds, odds_slopes = _log_odds(means)
    x = odds[:, 0] - odds[:, 1]
    share = beta * torch.sigmoid(-x)
    chosen = (-1 - share * odds_slopes[:, 0]) / weights[:, 0]
    rejected = share * odds_slopes[:, 1] / weights[:, 1]
    return -means[:, 0] - beta * _log_sigmoid(x), torch.stack([chosen, rejected], 1)


def _of_margin(loss: dict[str, Any], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and slope of losses of one number, the margin of DPO."""
    if loss["name"] == "hinge":
        return (1 - x).clamp(min=0), -(x < 1).to(x.dtype)
    wrong = loss["label_smoothing"]
    if loss["name"] == "robust":
        share = 1 - 2 * wrong
        value = wrong * _log_sigmoid(-x) - (1 - wrong) * _log_sigmoid(x)
        return value / share, -(wrong * torch.sigmoid(x) + (1 - wrong) * torch.sigmoid(-x)) / share
    value = -(1 - wrong) * _log_sigmoid(x) - wrong * _log_sigmoid(-x)
    return value, wrong * torch.sigmoid(x) - (1 - wrong) * torch.sigmoid(-x)


def _log_sigmoid(x: Tensor) -> Tensor:
    return x.clamp(max=0) - (-x.abs()).exp().log1p()


def _log_odds(mean: Tensor) -> tuple[Tensor, Tensor]:
    limited = mean.clamp(max=GREATEST_MEAN_LOGPROB)
    other = -torch.expm1(limited)
    return limited - other.log(), (1 / other).where(mean < GREATEST_MEAN_LOGPROB, 0.0)
