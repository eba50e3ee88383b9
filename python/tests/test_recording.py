"""What agents did, asked of the server: rollouts, rewards, calls, training data."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from conftest import Server
from fulgurite.client import Client, FulguriteError, KeyRefusedError, NewRollout, RefusedError, RolloutConfig

# Two turns, the second of which goes on from the first token by token.
AGENT = """
import json
import urllib.request

from fulgurite.agent import Task, serve


def ask(task, messages):
    body = {"model": "tiny", "messages": messages, "max_tokens": 3, "temperature": 1}
    headers = {"content-type": "application/json", "authorization": "Bearer " + task.api_key}
    request = urllib.request.Request(task.base_url + "/chat/completions", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]


def play(task: Task):
    print("this is no answer")
    if task.input == "broken":
        raise ValueError("out of sand")
    messages = [{"role": "user", "content": f"Say {task.input}."}]
    messages += [ask(task, messages), {"role": "user", "content": "Again."}]
    ask(task, messages)
    return {"reward": 0.5, "exact": 1}


serve(play)
"""


def say(server: Server, session: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Say 17."}], "max_tokens": 3}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers={"x-session-id": session})
    assert answer.status_code == 200, answer.text


def test_tasks_are_played_and_come_back_as_training_data(server: Server, client: Client) -> None:
    queued = client.enqueue(["17", "broken"], mode="train", metadata={"round": 1})
    assert [(one.input, one.status, one.mode, one.metadata) for one in queued] == [
        ("17", "queuing", "train", {"round": 1}),
        ("broken", "queuing", "train", {"round": 1}),
    ]
    assert client.wait([one.rollout_id for one in queued], seconds=0) == []
    server.play(AGENT)
    played, broken = client.wait([one.rollout_id for one in queued])
    assert (played.status, broken.status) == ("succeeded", "failed")

    (reward,) = client.rewards(played.rollout_id)
    assert (reward.value, reward.components, reward.giver) == (0.5, {"exact": 1.0}, "agent")
    (attempt,) = client.attempts(broken.rollout_id)
    assert attempt.metadata is not None
    assert attempt.metadata["reason"] == "agent failed: ValueError: out of sand"

    first, second = client.generations(played.rollout_id)
    assert second.parent_id == first.generation_id
    assert first.is_exact
    assert client.generations(played.rollout_id, limit=1, offset=1) == [second]
    assert client.generations(generation_id=first.generation_id) == [first]
    names = {span.name for span in client.spans(played.rollout_id)}
    assert "openai.chat.completion" in names

    (datum,) = client.datums(played.rollout_id)
    assert datum.tokens == second.prompt_tokens + second.sampled_tokens
    assert [token for token, trained in zip(datum.tokens, datum.mask, strict=True) if trained] == (
        first.sampled_tokens + second.sampled_tokens
    )
    assert [logprob for logprob, trained in zip(datum.logprobs, datum.mask, strict=True) if trained] == (
        (first.logprobs or []) + (second.logprobs or [])
    )
    assert datum.reward == 0.5
    assert client.triplets(broken.rollout_id) == []


def test_triplets_are_those_of_the_command(server: Server, client: Client) -> None:
    (queued,) = client.enqueue(["40"])
    server.play(AGENT)
    printed = server.command("triplets", queued.rollout_id, "--store", server.store, "--json").splitlines()
    expected: list[Any] = [json.loads(line) for line in printed]
    found = client.triplets(queued.rollout_id)
    assert [(one.prompt_tokens, one.sampled_tokens, one.reward) for one in found] == [
        (one["prompt"]["token_ids"], one["response"]["token_ids"], one["reward"]) for one in expected
    ]


def test_one_record_holds_what_single_questions_do(server: Server, client: Client) -> None:
    (queued,) = client.enqueue(["18"])
    server.play(AGENT)
    record, missing = client.records([queued.rollout_id, "ro-nobody"])
    assert missing is None
    assert record is not None
    assert record.generations == client.generations(queued.rollout_id)
    assert record.rewards == client.rewards(queued.rollout_id)
    assert record.attempts == client.attempts(queued.rollout_id)
    assert record.rollout.status == "succeeded"


def test_a_session_is_rewarded_by_its_name(server: Server, client: Client, request: pytest.FixtureRequest) -> None:
    session = f"visit-{request.node.callspec.id}"
    say(server, session)
    with pytest.raises(KeyRefusedError, match="another giver is named with the admin key alone"):
        client.give_reward(session, 1, giver="person")
    given = client.give_reward(session, 1, components={"polite": 0.25})
    assert (given.value, given.components, given.giver) == (1.0, {"polite": 0.25}, "unknown")
    assert client.rewards(session) == [given]
    (call,) = client.generations(session)
    own = client.give_reward(session, 0.5, generation_id=call.generation_id)
    assert own.generation_id == call.generation_id
    (triplet,) = client.triplets(call.rollout_id)
    assert triplet.reward == 0.5


def test_rollouts_are_found_by_what_they_are_for(client: Client) -> None:
    config = RolloutConfig(timeout_seconds=5, max_attempts=2, retry_condition=["timeout"])
    new = NewRollout({"n": 1}, mode="test", config=config, metadata={"run_id": "of-tests", "step": 7})
    queued = client.enqueue([new], samples=2)
    assert len({one.rollout_id for one in queued}) == 2
    found = client.rollouts(run_id="of-tests", step=7, status=["queuing"], mode="test")
    assert {one.rollout_id for one in queued} <= {one.rollout_id for one in found}
    assert found[0].config == config
    assert client.rollouts(run_id="of-nobody") == []
    assert client.rollout(queued[0].rollout_id) is not None
    assert client.rollout("ro-nobody") is None


def test_the_same_rollout_is_enqueued_once(client: Client, request: pytest.FixtureRequest) -> None:
    new = NewRollout("only once", rollout_id=f"ro-{request.node.callspec.id}")
    assert client.enqueue([new]) == client.enqueue([new])


def test_what_the_server_refuses_is_said_in_its_words(client: Client) -> None:
    with pytest.raises(RefusedError, match="ro-nobody") as refused:
        client.give_reward("ro-nobody", 1)
    assert refused.value.status == 404
    (queued,) = client.enqueue(["19"])
    with pytest.raises(FulguriteError, match="cannot be written as JSON"):
        client.give_reward(queued.rollout_id, float("nan"))
    with pytest.raises(FulguriteError, match="there is no rollout ro-nobody"):
        client.triplets("ro-nobody")


def test_a_key_opens_what_is_closed_without_it(tmp_path: Any) -> None:
    key = "opens-all-that-there-is-to-open"
    server = Server(tmp_path, admin_key=key)
    try:
        with Client(server.url) as client, pytest.raises(KeyRefusedError, match="FULGURITE_ADMIN_KEY"):
            client.rollouts()
        with Client(server.url, admin_key=key) as client:
            say_key = {"authorization": f"Bearer {key}", "x-session-id": "kept"}
            body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
            httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=say_key).raise_for_status()
            assert client.give_reward("kept", 1, giver="judge").giver == "judge"
    finally:
        server.stop()
