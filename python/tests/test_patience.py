"""Servers that are away, busy or somebody else's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from conftest import Server
from fulgurite.client import (
    AsyncClient,
    Client,
    FulguriteError,
    KeyRefusedError,
    ReplyError,
    RouteMissingError,
    UnreachableError,
)

Answer = Callable[[httpx.Request], httpx.Response]


def mocked(answer: Answer, patience: float = 60) -> Client:
    return Client("http://server", patience=patience, http=httpx.Client(transport=httpx.MockTransport(answer)))


def test_a_server_that_is_killed_is_asked_until_it_is_back(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        with Client(server.url) as client:
            (queued,) = client.enqueue(["kept"])
            server.stop()
            restart = threading.Timer(0.2, server.start)
            restart.start()
            found = client.rollout(queued.rollout_id)
            restart.join()
        assert found is not None
        assert found.input == "kept"
    finally:
        server.stop()


def test_patience_has_an_end_that_names_the_server() -> None:
    words = "http://127.0.0.1:1/healthz was out of reach for 0 s: ConnectError: .*; does `fulgurite serve` run there"
    with Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(UnreachableError, match=words):
        client.health()

    async def ask() -> None:
        async with AsyncClient("http://127.0.0.1:1", patience=0) as client:
            await client.health()

    with pytest.raises(UnreachableError, match=words):
        asyncio.run(ask())


def test_a_busy_server_is_asked_again_with_the_same_idempotency_key() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) < 3:
            return httpx.Response([429, 503][len(seen) - 1], json={"detail": "later"})
        reward = {"value": 1, "name": "primary", "components": [["a", 2]]}
        given = {"attempt_id": "at-1", "span_id": "s", "sequence_id": 1, "time": None, "generation_id": None}
        return httpx.Response(201, json={**given, "reward": reward, "of_a_newer_server": 1})

    assert mocked(answer).give_reward("a/b?c", 1).components == {"a": 2.0}
    assert len(seen) == 3
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert seen[0].url.raw_path == b"/rollout/a%2Fb%3Fc/attempt/latest/reward"


def test_a_busy_servers_words_are_in_the_error() -> None:
    client = mocked(lambda _: httpx.Response(503, json={"error": {"message": "no room"}}), patience=0)
    with pytest.raises(UnreachableError, match="it answered 503: no room"):
        client.health()


def test_a_redirect_is_no_answer_and_gets_no_key() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "server"
        return httpx.Response(307, headers={"location": "http://elsewhere/"}, text="elsewhere")

    with pytest.raises(FulguriteError, match=r"status 307"):
        mocked(answer).health()


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (200, b"[1]", ReplyError, "it must be an object, and is list"),
        (200, b'{"status": 1, "models": []}', ReplyError, "status must be str, and is int"),
        (200, b'{"models": []}', ReplyError, "status is missing"),
        (200, b"no JSON", ReplyError, "Expecting value"),
        (404, b"<html>", RouteMissingError, "is that a Fulgurite server"),
        (403, b'{"detail": "no"}', KeyRefusedError, r"no \(status 403\)"),
    ],
)
def test_other_answers_than_a_servers_are_errors(
    status: int, body: bytes, kind: type[FulguriteError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        mocked(lambda _: httpx.Response(status, content=body)).health()


@pytest.mark.parametrize("url", ["localhost:4747", "ftp://host", "http://", "http://any:opens-all@host:1"])
def test_what_is_no_servers_url_is_refused_without_telling_a_key(url: str) -> None:
    with pytest.raises(FulguriteError) as refused:
        Client(url)
    assert "opens-all" not in str(refused.value)


def test_the_environment_names_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULGURITE_SERVER", "http://server/prefix/")
    monkeypatch.setenv("FULGURITE_ADMIN_KEY", "opens-all")
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"status": "ok", "models": []})

    Client(http=httpx.Client(transport=httpx.MockTransport(answer))).health()
    assert str(seen[0].url) == "http://server/prefix/healthz"
    assert seen[0].headers["authorization"] == "Bearer opens-all"
