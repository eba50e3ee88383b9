"""Rows of which those that several sequences begin with stand there once, as in `engine/src/passes/packed_rows.rs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fulgurite.learner.datums import Datums

LEAST_SHARE = 1 / 16
"""Of a call's tokens: where less is shared, rows are packed apart, for which there are faster kernels."""


@dataclass
class Batch:
    """Datums of one pass, by their places in the call."""

    indices: list[int]
    positions: int
    """That are computed, at most."""
    shares: bool
    """Whether what several of them begin with is computed once."""


@dataclass
class SharedRows:
    """Sequences in a tree: what comes before a row's token stands in front of it."""

    tokens: Tensor
    positions: Tensor
    ends: Tensor
    """Of each row, the end of the rows that go on from it: those from it to there see it, and no others."""
    paths: list[Tensor]
    """Of each sequence, in the order in which they were given: the row of each position."""

    @classmethod
    def of(cls, sequences: list[Tensor]) -> SharedRows:
        """Put sequences together."""
        tokens: list[Tensor] = []
        positions: list[Tensor] = []
        paths = [torch.zeros(0, dtype=torch.long)] * len(sequences)
        ends = torch.zeros(sum(len(it) for it in sequences), dtype=torch.long)
        count, path, before = 0, paths[0][:0], None
        for index in in_order(sequences):
            own = sequences[index]
            shared = 0 if before is None else common_start(before, own)
            ends[path[shared:]] = count
            rows = torch.arange(count, count + len(own) - shared)
            path = torch.cat([path[:shared], rows])
            tokens.append(own[shared:])
            positions.append(torch.arange(shared, len(own)))
            count += len(rows)
            paths[index], before = path, own
        ends[path] = count
        return cls(torch.cat(tokens), torch.cat(positions), ends[:count], paths)


def visible(ends: Tensor) -> Tensor:
    """Return which rows each row sees: `[1, 1, rows, rows]`."""
    rows = torch.arange(len(ends), device=ends.device)
    return ((rows[None] <= rows[:, None]) & (rows[:, None] < ends[None]))[None, None]


def block_mask(ends: Tensor) -> Any:
    """Return the same for flex attention, which leaves out blocks that no row sees."""
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(_batch: Tensor, _head: Tensor, row: Tensor, other: Tensor) -> Tensor:
        return (other <= row) & (row < ends[other])

    return create_block_mask(sees, B=None, H=None, Q_LEN=len(ends), KV_LEN=len(ends), device=ends.device)


def common_start(one: Tensor, other: Tensor) -> int:
    """Return how many tokens two sequences begin with in common."""
    length = min(len(one), len(other))
    apart = (one[:length] != other[:length]).nonzero()
    return int(apart[0]) if len(apart) else length


def in_order(sequences: list[Tensor]) -> list[int]:
    """Return places by their tokens, so that each sequence shares most with the one before it."""
    lists = [it.tolist() for it in sequences]
    return sorted(range(len(lists)), key=lists.__getitem__)


def sequences_of(data: Datums, indices: list[int]) -> list[Tensor]:
    """Return the tokens of some datums."""
    return [data.tokens[data.token_starts[index] : data.token_starts[index + 1]] for index in indices]


def why_not(config: Any) -> str | None:
    """Return what of a model does not go with shared rows, if anything does: layers that do not see all tokens before."""
    others = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention"})
    if others:
        return f"layers of {', '.join(others)}"
    if getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True):
        return f"sliding_window of {config.sliding_window} tokens"
    return None
