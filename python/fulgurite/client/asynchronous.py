"""The client whose methods are coroutines."""

# Written by python/make_asynchronous.py from synchronous.py.

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

import httpx

from fulgurite.client import operations, training_data
from fulgurite.client.records import (
    Attempt,
    Datum,
    Generation,
    Giver,
    Health,
    Mode,
    ModelState,
    NamedWeights,
    Publication,
    Reward,
    Rollout,
    RolloutRecord,
    RolloutStatus,
    ServedWeights,
    Span,
    Triplet,
)
from fulgurite.client.wire import Address, Operation, Patience, Reply, Request

T = TypeVar("T")
C = TypeVar("C", bound="AsyncClient")


class AsyncClient:
    """A Fulgurite server, asked with patience.

    Every method may raise what `fulgurite.client.errors` has: UnreachableError once the server was out of reach for
    `patience` seconds, RefusedError with the server's words, ReplyError for an answer that cannot be used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        admin_key: str | None = None,
        patience: float = 60.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Name a server; nothing is sent yet.

        `url` is FULGURITE_SERVER's unless it is given, and `admin_key` FULGURITE_ADMIN_KEY's. `patience` is how many seconds
        the server may be out of reach. `http` is what requests are sent by, where its defaults do not do, and stays open.
        """
        self._address = Address(url, admin_key)
        self._patience = patience
        self._owned = http is None
        # Whoever a redirect points to must not get the key.
        self._http = http or httpx.AsyncClient(follow_redirects=False)

    @property
    def url(self) -> str:
        """The server's base URL, without a slash at its end."""
        return self._address.url

    async def close(self) -> None:
        """Close the connections."""
        if self._owned:
            await self._http.aclose()

    async def __aenter__(self: C) -> C:
        """Return this client, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def _send(self, request: Request) -> Reply:
        url = self._address.of(request)
        patience = Patience(url, self._patience)
        while True:
            try:
                answer = await self._http.request(request.method, url, **self._address.arguments(request))
                reply = Reply(url, answer.status_code, answer.content)
                passing = reply.passing()
            except httpx.TransportError as error:
                passing = f"{type(error).__name__}: {error}"
            if passing is None:
                return reply
            await asyncio.sleep(patience.pause_after(passing))

    async def _run(self, operation: Operation[T]) -> T:
        request = next(operation, None)
        try:
            while request is not None:
                request = operation.send(await self._send(request))
        except StopIteration as ended:
            result: T = ended.value
            return result
        raise RuntimeError("an operation that asks nothing has no result")

    async def health(self) -> Health:
        """Return whether the server answers, and what it samples its models from. Needs no key."""
        return await self._run(operations.health())

    async def enqueue(
        self,
        tasks: Iterable[Any],
        *,
        samples: int = 1,
        mode: Mode | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Rollout]:
        """Put tasks at the end of the queue, each `samples` times, and return their rollouts in order.

        A task is any JSON, or a NewRollout where more than its input is to be said.
        """
        return await self._run(operations.enqueue(tasks, samples, mode, metadata))

    async def wait(self, rollout_ids: Sequence[str], *, seconds: float | None = None) -> list[Rollout]:
        """Wait until all of these rollouts have ended, or for so many seconds, and return those that have."""
        return await self._run(operations.wait(rollout_ids, seconds))

    async def rollout(self, rollout_id: str) -> Rollout | None:
        """Return a rollout by its id or by the name of its session; None if there is none."""
        return await self._run(operations.rollout(rollout_id))

    async def rollouts(
        self,
        *,
        status: Sequence[RolloutStatus] | None = None,
        run_id: str | None = None,
        step: int | None = None,
        mode: Mode | None = None,
        sessions: bool = True,
        limit: int | None = 100,
        offset: int = 0,
    ) -> list[Rollout]:
        """Return rollouts that meet all of this, newest first; those of sessions too, unless told otherwise."""
        return await self._run(
            operations.rollouts(
                status=status, run_id=run_id, step=step, mode=mode, sessions=sessions, limit=limit, offset=offset
            )
        )

    async def attempts(self, rollout_id: str) -> list[Attempt]:
        """Return the attempts at a rollout, in order; the last one counts."""
        return await self._run(operations.attempts(rollout_id))

    async def spans(self, rollout_id: str, *, attempt_id: str | None = None, name: str | None = None) -> list[Span]:
        """Return the spans of a rollout; `attempt_id` may be `latest`."""
        return await self._run(operations.spans(rollout_id, attempt_id, name))

    async def give_reward(
        self,
        rollout: str,
        value: float,
        *,
        attempt_id: str | None = None,
        generation_id: str | None = None,
        name: str | None = None,
        components: Mapping[str, float] | None = None,
        giver: Giver | None = None,
    ) -> Reward:
        """Reward a rollout, or the one session of this name: its latest attempt, the attempt or the model call.

        It is given once, however often the request is sent. `giver` is believed with the admin key alone.
        """
        return await self._run(
            operations.give_reward(
                rollout,
                value,
                attempt_id=attempt_id,
                generation_id=generation_id,
                name=name,
                components=components,
                giver=giver,
            )
        )

    async def rewards(self, rollout_id: str, *, attempt_id: str = "latest") -> list[Reward]:
        """Return the rewards of an attempt, in the order in which they were given."""
        return await self._run(operations.rewards(rollout_id, attempt_id))

    async def generations(
        self,
        rollout_id: str | None = None,
        *,
        attempt_id: str | None = None,
        run_id: str | None = None,
        generation_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Generation]:
        """Return model calls in the order of recording, with their tokens and logprobs to the bit."""
        return await self._run(
            operations.generations(
                rollout_id,
                attempt_id=attempt_id,
                run_id=run_id,
                generation_id=generation_id,
                limit=limit,
                offset=offset,
            )
        )

    async def records(self, rollout_ids: Sequence[str]) -> list[RolloutRecord | None]:
        """Return rollouts with all that was recorded of them, in the order of the ids; None for one that is not there."""
        return await self._run(operations.records(rollout_ids))

    async def triplets(self, rollout_id: str) -> list[Triplet]:
        """Return the exactly recorded calls of a rollout's last attempt: prompt, answer and reward, in tokens."""
        return training_data.triplets(await self._run(operations.record(rollout_id)))

    async def datums(self, rollout_id: str) -> list[Datum]:
        """Return the conversations of a rollout's last attempt as whole sequences with a mask.

        What the agent's calls have in common stands in one sequence, where one went on from the other token by token.
        """
        return training_data.datums(await self._run(operations.record(rollout_id)))

    async def model(self, name: str) -> ModelState:
        """Return the state of a served model, with the version of its weights."""
        return await self._run(operations.model(name))

    async def pause_model(self, name: str, *, reason: str | None = None, drain: bool = False) -> ModelState:
        """Hold the calls that come from now on; with `drain`, return once none is at the model's host any more."""
        return await self._run(operations.pause_model(name, reason, drain))

    async def resume_model(self, name: str) -> ModelState:
        """Let calls go on that were held."""
        return await self._run(operations.resume_model(name))

    async def publish_weights(
        self,
        name: str,
        *,
        directory: str | None = None,
        adapter: str | None = None,
        kept: str | None = None,
        version: int | None = None,
        replaces: int | Literal["anything", "older"] = "older",
        run_id: str | None = None,
        base: str | None = None,
    ) -> ModelState:
        """Put new weights behind a model, at every server of the store, and return once its host has them.

        They are in a `directory` of a whole model or of an `adapter`, on the server's disk, or `kept` by the model's host
        under a name. `replaces` is what they may take the place of: an older version, a version by its number, anything.
        `base` is the identity of the model that an adapter was trained on; a server of another model refuses it.
        """
        return await self._run(
            operations.publish_weights(
                name,
                directory=directory,
                adapter=adapter,
                kept=kept,
                version=version,
                replaces=replaces,
                run_id=run_id,
                base=base,
            )
        )

    async def named_weights(self, model: str, *, run_id: str | None = None) -> list[NamedWeights]:
        """Return all weights of a model that have a version; those of one run alone if it is given."""
        return await self._run(operations.named_weights(model, run_id))

    async def publications(self) -> list[Publication]:
        """Return the newest publication of each model."""
        return await self._run(operations.publications())

    async def served_weights(self) -> list[ServedWeights]:
        """Return what each server of the store samples its models from."""
        return await self._run(operations.served_weights())
