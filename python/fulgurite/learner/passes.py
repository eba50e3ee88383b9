"""Passes over datums: rows packed one after another without padding, and logits in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fulgurite.learner.datums import Datums
from fulgurite.learner.policy import Policy
from fulgurite.learner.shared import Batch, SharedRows, common_start, in_order, sequences_of

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

    def __init__(
        self, policy: Policy, data: Datums, batch: Batch, temperature: float = 1.0, *, trained_only: bool
    ) -> None:
        """Gather what the pass computes; only targets that take part in the loss, or all, at a temperature."""
        self.policy, self.indices, self._temperature = policy, batch.indices, temperature
        device = policy.device
        sequences = sequences_of(data, batch.indices)
        if batch.shares:
            shared = SharedRows.of(sequences)
            self.saved = sum(len(it) for it in sequences) - len(shared.tokens)
            tokens, positions, paths = shared.tokens, shared.positions, shared.paths
        else:
            self.saved = 0
            tokens, positions = torch.cat(sequences), torch.cat([torch.arange(len(it)) for it in sequences])
            paths = list(torch.arange(len(tokens)).split([len(it) for it in sequences]))
        rows, places, datums = [], [], []
        for order, (index, path) in enumerate(zip(batch.indices, paths, strict=True)):
            own = data.slots(index)
            place = torch.arange(own.start, own.stop)
            row = path.repeat_interleave(data.widths[index])
            if trained_only:
                computed = data.weights[own] != 0
                place, row = place[computed], row[computed]
            rows.append(row)
            places.append(place)
            datums.append(torch.full_like(place, order))
        self.positions = len(tokens)
        self._tokens = tokens.to(device, non_blocking=True)
        self._positions = positions.to(device, non_blocking=True)
        self._ends = shared.ends.to(device, non_blocking=True) if self.saved else None
        place, datum = torch.cat(places), torch.cat(datums)
        # Several targets of one position share its logits.
        predicting, row = torch.unique_consecutive(torch.cat(rows), return_inverse=True)
        self._predicting, self._row = predicting.to(device), row.to(device)
        first = torch.ones_like(row, dtype=torch.bool)
        first[1:] = (row[1:] != row[:-1]) | (datum[1:] != datum[:-1])
        self._first = first.to(device)
        self.slots = Slots(
            place,
            datum.to(device),
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
        return self.policy.hidden(self._tokens, self._positions, self._ends)[self._predicting]

    def score(self, hidden: Tensor) -> Tensor:
        """Return the logprob of each slot; of a model whose head is a score, that."""
        found = [self._logprobs(hidden, rows, slots)[0] for rows, slots in self._chunks]
        return torch.cat(found) if found else hidden.new_zeros(0)

    def entropies(self, hidden: Tensor) -> Tensor:
        """Return the entropy that predicts each slot, of the first of those that one position has."""
        found = []
        for rows, slots in self._chunks:
            _, logits, normaliser = self._logprobs(hidden, rows, slots)
            certain = logits - normaliser[:, None]
            entropy = -(certain.exp() * certain).sum(-1)
            found.append(entropy[self._row[slots] - rows.start] * self._first[slots])
        return torch.cat(found) if found else hidden.new_zeros(0)

    def _logprobs(self, hidden: Tensor, rows: slice, slots: slice) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.policy.logits(hidden[rows])
        if self._temperature != 1.0:
            logits = logits / self._temperature
        normaliser = torch.logsumexp(logits, -1)
        row = self._row[slots] - rows.start
        if self.policy.has_score:
            return logits[row, 0], logits, normaliser
        return logits[row, self.slots.target[slots]] - normaliser[row], logits, normaliser

    def learn(self, hidden: Tensor, slopes: Slopes, entropy_weight: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
        """Add the gradient of a loss to what has accumulated; return each slot's loss, logprob and entropy.

        The gradient is that of the loss less `entropy_weight` times each slot's entropy.
        """
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
                objective = (found * slope).sum()
                if entropy_weight:
                    certain = logits - normaliser[:, None]
                    exact = -(certain.exp() * certain).sum(-1)[self._row[slots] - rows.start]
                    objective = objective - entropy_weight * (exact * self._first[slots]).sum()
                objective.backward()
            values.append(value)
            logprobs.append(found.detach())
            entropies.append(entropy * self._first[slots])
        if hidden.requires_grad:
            hidden.backward(leaf.grad)
        return torch.cat(values), torch.cat(logprobs), torch.cat(entropies)


def batches(groups: list[list[int]], data: Datums, limit: int, *, packs: bool, shares: bool = False) -> Iterator[Batch]:
    """Put groups of datums together into passes of at most so many positions that are computed, or of one group."""
    batch = Batch([], 0, shares)
    before: Tensor | None = None
    for group in groups:
        own, last = _computed(group, data, before, shares=shares)
        if batch.indices and (batch.positions + own > limit or not packs):
            yield batch
            batch = Batch([], 0, shares)
            own, last = _computed(group, data, None, shares=shares)
        batch, before = Batch(batch.indices + group, batch.positions + own, shares), last
    if batch.indices:
        yield batch


def _computed(group: list[int], data: Datums, before: Tensor | None, *, shares: bool) -> tuple[int, Tensor | None]:
    """Return how many positions a group adds to a pass whose last sequence is `before`, and the group's last sequence."""
    positions = sum(data.positions[index] for index in group)
    if not shares:
        return positions, None
    sequences = sequences_of(data, group)
    for place in in_order(sequences):
        if before is not None:
            positions -= common_start(before, sequences[place])
        before = sequences[place]
    return positions, before
