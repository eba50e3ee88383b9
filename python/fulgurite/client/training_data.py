"""From a rollout's record to what a trainer takes: triplets, or whole sequences with a mask."""

from __future__ import annotations

from fulgurite.client.errors import FulguriteError
from fulgurite.client.records import Datum, Generation, RolloutRecord, Triplet


def triplets(record: RolloutRecord) -> list[Triplet]:
    """Return the exactly recorded calls of the last attempt, each with its reward."""
    calls = _calls(record)
    own = {reward.generation_id: reward.value for reward in record.rewards}
    found = []
    for call in calls:
        inherited = own.get(None) if call is calls[-1] else None
        reward = own.get(call.generation_id, inherited)
        found.append(Triplet(call.generation_id, call.prompt_tokens, call.sampled_tokens, call.logprobs or [], reward))
    return found


def datums(record: RolloutRecord) -> list[Datum]:
    """Return the conversations of the last attempt, each sampled token trained in one of them alone."""
    calls = {call.generation_id: call for call in _calls(record)}
    reward = next((reward.value for reward in reversed(record.rewards) if reward.generation_id is None), None)
    continued = {call.parent_id for call in calls.values()}
    trained: set[str] = set()
    found = []
    for last in calls.values():
        if last.generation_id not in continued:
            found.append(_datum(last, calls, trained, reward))
    return found


def _datum(last: Generation, calls: dict[str, Generation], trained: set[str], reward: float | None) -> Datum:
    tokens = last.prompt_tokens + last.sampled_tokens
    mask, logprobs, ids = [0] * len(tokens), [0.0] * len(tokens), []
    call: Generation | None = last
    while call is not None:
        begin, end = len(call.prompt_tokens), len(call.prompt_tokens) + len(call.sampled_tokens)
        if tokens[:end] != call.prompt_tokens + call.sampled_tokens:
            raise FulguriteError(f"generation {last.generation_id} does not go on from {call.generation_id}")
        ids.append(call.generation_id)
        if call.generation_id not in trained:
            mask[begin:end] = [1] * (end - begin)
            logprobs[begin:end] = call.logprobs or []
            trained.add(call.generation_id)
        call = calls.get(call.parent_id) if call.parent_id is not None else None
    return Datum(last.rollout_id, last.attempt_id, ids[::-1], tokens, mask, logprobs, reward)


def _calls(record: RolloutRecord) -> list[Generation]:
    if not record.attempts:
        return []
    counts = record.attempts[-1].attempt_id
    return [call for call in record.generations if call.attempt_id == counts and call.is_exact]
