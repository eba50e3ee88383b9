"""Datums as they come over the wire: lists of all datums, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Any

from torch import Tensor

from fulgurite.learner.protocol import Fault, LearnerError


class Inputs(IntEnum):
    """What a datum carries for its loss."""

    WEIGHTS = 0
    POLICY = 1


@dataclass
class Datums:
    """The datums of a call, on the CPU.

    A slot is one target of one position. A position has `widths[i]` targets in datum `i`, 1 unless its targets are soft.
    """

    positions: list[int]
    widths: list[int]
    inputs: list[int]
    tokens: Tensor
    targets: Tensor
    weights: Tensor
    """Of each slot: its weight, or its mask where the datum carries logprobs and advantages."""
    sampler_logprobs: Tensor
    advantages: Tensor
    token_starts: list[int]
    slot_starts: list[int]

    @classmethod
    def read(cls, tensors: dict[str, Any]) -> Datums:
        """Take a call's tensors."""
        positions, widths = tensors["positions"].tolist(), tensors["widths"].tolist()
        slots = [count * width for count, width in zip(positions, widths, strict=True)]
        return cls(
            positions=positions,
            widths=widths,
            inputs=tensors["inputs"].tolist(),
            tokens=tensors["tokens"].long(),
            targets=tensors["targets"].long(),
            weights=tensors["weights"],
            sampler_logprobs=tensors["sampler_logprobs"],
            advantages=tensors["advantages"],
            token_starts=[0, *accumulate(positions)],
            slot_starts=[0, *accumulate(slots)],
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.positions)

    def slots(self, index: int) -> slice:
        """Return the slots of a datum."""
        return slice(self.slot_starts[index], self.slot_starts[index + 1])

    def is_trained(self, index: int) -> bool:
        """Whether any slot of a datum takes part in the loss."""
        return bool((self.weights[self.slots(index)] != 0).any())

    def check(self, vocabulary_size: int, context_length: int) -> None:
        """Refuse what the model cannot read."""
        for index, positions in enumerate(self.positions):
            if positions == 0:
                raise refusal(index, "it has no positions")
            if positions > context_length:
                raise refusal(
                    index, f"it has {positions} positions, but the model's context length is {context_length}"
                )
        for ids, starts in ((self.tokens, self.token_starts), (self.targets, self.slot_starts)):
            unknown = (ids < 0) | (ids >= vocabulary_size)
            if bool(unknown.any()):
                place = int(unknown.nonzero()[0])
                index = next(i for i in range(len(self)) if place < starts[i + 1])
                message = f"token {int(ids[place])} is not in the vocabulary of {vocabulary_size} tokens"
                raise refusal(index, message)

    def check_inputs(self, loss: str) -> None:
        """Refuse datums that do not carry what a loss of tokens needs."""
        wanted = Inputs.WEIGHTS if loss == "cross_entropy" else Inputs.POLICY
        for index, inputs in enumerate(self.inputs):
            if inputs != wanted:
                needs, carries = "weights", "logprobs, advantages and a mask"
                if wanted is Inputs.POLICY:
                    needs, carries = carries, needs
                raise refusal(index, f"{loss} needs {needs}, but the datum carries {carries}")
            if wanted is Inputs.POLICY:
                mask = self.weights[self.slots(index)]
                wrong = ((mask != 0) & (mask != 1)).nonzero()
                if len(wrong):
                    place = int(wrong[0])
                    raise refusal(index, f"mask[{place}] is {float(mask[place])}, but a mask is 0 or 1")


def refusal(index: int, message: str) -> LearnerError:
    """Return the error for a datum that cannot be computed."""
    return LearnerError(Fault.INVALID_REQUEST, f"datum {index}: {message}")
