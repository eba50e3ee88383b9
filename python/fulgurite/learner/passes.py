"""Passes over datums: rows packed one after another without padding, and logits in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fulgurite.learner.datums import Datums
from fulgurite.learner.policy import Policy

_CHUNK_BYTES = 256 << 20
"""Of the logits that are in memory at a time, in float32."""


@dataclass
class Slots:
    """The targets of a pass whose logprobs are computed, on the device, position by position."""

    place: Tensor
    """Among the slots of the call."""
    datum: Tensor
    """Place of the datum in the pass."""
    target: Tensor
    weight: Tensor
    sampler_logprob: Tensor
    advantage: Tensor


Slopes = Callable[[slice, Tensor], tuple[Tensor, Tensor]]
"""From some slots and their logprobs, the value of the loss of each and its slope by the logprob."""


class Pass:
    """Some datums in one pass of the decoder."""

    def __init__(self, policy: Policy, data: Datums, indices: list[int], *, trained_only: bool) -> None:
        """Gather what the pass computes; only targets that take part in the loss, or all."""
        self.policy, self.indices = policy, indices
        device = policy.device
        tokens, positions, rows, places, datums = [], [], [], [], []
        start = 0
        for order, index in enumerate(indices):
            count, width = data.positions[index], data.widths[index]
            tokens.append(data.tokens[data.token_starts[index] : data.token_starts[index + 1]])
            positions.append(torch.arange(count))
            own = data.slots(index)
            place = torch.arange(own.start, own.stop)
            row = start + torch.arange(count).repeat_interleave(width)
            if trained_only:
                computed = data.weights[own] != 0
                place, row = place[computed], row[computed]
            rows.append(row)
            places.append(place)
            datums.append(torch.full_like(place, order))
            start += count
        self.positions = start
        self._tokens = torch.cat(tokens).to(device, non_blocking=True)
        self._positions = torch.cat(positions).to(device, non_blocking=True)
        place = torch.cat(places)
        # Several targets of one position share its logits.
        predicting, row = torch.unique_consecutive(torch.cat(rows), return_inverse=True)
        self._predicting, self._row = predicting.to(device), row.to(device)
        self._first = torch.ones_like(row, dtype=torch.bool)
        self._first[1:] = row[1:] != row[:-1]
        self._first = self._first.to(device)
        self.slots = Slots(
            place,
            torch.cat(datums).to(device),
            data.targets[place].to(device),
            data.weights[place].to(device),
            data.sampler_logprobs[place].to(device),
            data.advantages[place].to(device),
        )
        self._chunks = list(self._cut(row, len(predicting)))

    def _cut(self, row: Tensor, count: int) -> Iterator[tuple[slice, slice]]:
        """Cut the predicting rows into chunks, each with the slots that it predicts."""
        size = max(1, _CHUNK_BYTES // (4 * self.policy.vocabulary_size))
        edges = [*range(0, count, size), count]
        starts = torch.searchsorted(row, torch.tensor(edges)).tolist()
        for i in range(len(edges) - 1):
            yield slice(edges[i], edges[i + 1]), slice(starts[i], starts[i + 1])

    def __len__(self) -> int:
        """Return of how many targets it computes logprobs."""
        return len(self.slots.place)

    def hidden(self) -> Tensor:
        """Return what the decoder leaves for the head, of each predicting row."""
        return self.policy.hidden(self._tokens, self._positions)[self._predicting]

    def score(self, hidden: Tensor) -> Tensor:
        """Return the logprob of each slot."""
        found = [self._logprobs(hidden, rows, slots)[0] for rows, slots in self._chunks]
        return torch.cat(found) if found else hidden.new_zeros(0)

    def _logprobs(self, hidden: Tensor, rows: slice, slots: slice) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.policy.logits(hidden[rows])
        normaliser = torch.logsumexp(logits, -1)
        row = self._row[slots] - rows.start
        return logits[row, self.slots.target[slots]] - normaliser[row], logits, normaliser

    def learn(self, hidden: Tensor, slopes: Slopes) -> tuple[Tensor, Tensor, Tensor]:
        """Add the gradient of a loss to what has accumulated; return each slot's loss, logprob and entropy."""
        # The chunks' gradients meet here, so that the decoder is gone through once.
        leaf = hidden.detach().requires_grad_(hidden.requires_grad)
        values, logprobs, entropies = [], [], []
        for rows, slots in self._chunks:
            found, logits, normaliser = self._logprobs(leaf, rows, slots)
            with torch.no_grad():
                value, slope = slopes(slots, found.detach())
                certain = logits - normaliser[:, None]
                entropy = -(certain.exp() * certain).sum(-1)[self._row[slots] - rows.start]
                del certain
            if found.requires_grad:
                (found * slope).sum().backward()
            values.append(value)
            logprobs.append(found.detach())
            entropies.append(entropy * self._first[slots])
        if hidden.requires_grad:
            hidden.backward(leaf.grad)
        return torch.cat(values), torch.cat(logprobs), torch.cat(entropies)


def batches(groups: list[list[int]], data: Datums, limit: int, *, packs: bool) -> Iterator[list[int]]:
    """Put groups of datums together into passes of at most so many positions, or of one group."""
    batch: list[int] = []
    size = 0
    for group in groups:
        own = sum(data.positions[index] for index in group)
        if batch and (size + own > limit or not packs):
            yield batch
            batch, size = [], 0
        batch, size = batch + group, size + own
    if batch:
        yield batch
