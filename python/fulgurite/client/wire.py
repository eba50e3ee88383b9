"""Requests, replies and patience: all that the sync and the async client have in common about sending."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from fulgurite.client.errors import (
    FulguriteError,
    KeyRefusedError,
    RefusedError,
    ReplyError,
    RouteMissingError,
    UnreachableError,
)
from fulgurite.client.reading import MistakeError, read

T = TypeVar("T")

REQUEST_SECONDS = 120.0
"""How long a request may take, unless its route takes longer."""

LOADING_SECONDS = 3600.0
"""How long a model's hosts may take for new weights: calls under way may end first."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
WARNING_SECONDS = 60.0
LONGEST_MESSAGE = 500

LOG = logging.getLogger("fulgurite.client")


@dataclass(frozen=True)
class Request:
    """A request to a route, given by the segments of its path."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, object] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = REQUEST_SECONDS


@dataclass(frozen=True)
class Reply:
    """An answer that has arrived whole."""

    url: str
    status: int
    body: bytes

    def passing(self) -> str | None:
        """Return why another try may be answered otherwise; None if this is the answer."""
        if self.status >= 500 or self.status in (408, 429):
            return f"it answered {self.status}: {self.message()}"
        return None

    def message(self) -> str:
        """Return what is said of an error: the store's words or the proxy's, or the beginning of whatever it is."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        message: object = None
        if isinstance(value, dict):
            error = value.get("error")
            message = value.get("detail") or (error.get("message") if isinstance(error, dict) else None)
        if message is None:
            message = self.body.decode(errors="replace")
        return (message if isinstance(message, str) else json.dumps(message))[:LONGEST_MESSAGE]

    def accepted(self) -> Reply:
        """Return this answer, unless the server refuses in it to do what it was asked to."""
        if 200 <= self.status < 300:
            return self
        kind: type[RefusedError] = RefusedError
        if self.status in (401, 403):
            kind = KeyRefusedError
        elif self.status in (404, 405) and not self._names_what_is_missing():
            kind = RouteMissingError
        raise kind(self.url, self.status, self.message())

    def read(self, kind: type[T], *way: str) -> T:
        """Return what an accepted answer holds, as this type; `way` are the keys that lead to it."""
        self.accepted()
        try:
            value = json.loads(self.body)
            for key in way:
                value = value[key]
            return read(kind, value)
        except (KeyError, TypeError) as error:
            raise ReplyError(self.url, f"it has no {error}") from error
        except (ValueError, MistakeError) as error:
            raise ReplyError(self.url, str(error)) from error

    def _names_what_is_missing(self) -> bool:
        """Whether a thing is not there, rather than the route to it: the store says so in words, the proxy in a code."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return False
        detail, error = value.get("detail"), value.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        return "not found: " in str(detail) or str(code).endswith("_not_found")


Operation = Generator[Request, Reply, T]
"""What a method does: it yields requests, is sent their replies, and returns its result."""


class Patience:
    """How often one request is sent again, and after which pauses."""

    def __init__(self, url: str, seconds: float) -> None:
        """Begin with a URL that has not failed yet."""
        self._url, self._seconds = url, seconds
        self._since: float | None = None
        self._warned: float | None = None
        self._pause = FIRST_PAUSE

    def pause_after(self, reason: str) -> float:
        """Return the seconds to wait before the next try.

        Raises UnreachableError once patience is at its end.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        pause, self._pause = self._pause, min(LONGEST_PAUSE, self._pause * 2)
        if now - self._since + pause > self._seconds:
            raise UnreachableError(self._url, self._seconds, reason)
        if self._warned is None or now - self._warned >= WARNING_SECONDS:
            LOG.warning("%s is out of reach; it is asked again until it answers: %s", self._url, reason)
            self._warned = now
        return pause


class Address:
    """Where a server is, and with which key it is asked."""

    def __init__(self, url: str | None, admin_key: str | None) -> None:
        """Check a URL; what is None is taken from FULGURITE_SERVER and FULGURITE_ADMIN_KEY."""
        url = url or os.environ.get("FULGURITE_SERVER") or "http://127.0.0.1:4747"
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise FulguriteError(f"the URL of {parts.hostname} must hold no key: its place is FULGURITE_ADMIN_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FulguriteError(f"`{url}` is not the URL of a server; it looks like http://127.0.0.1:4747")
        self.url = url.rstrip("/")
        key = admin_key or os.environ.get("FULGURITE_ADMIN_KEY")
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}

    def of(self, request: Request) -> str:
        """Return the URL of a request. What stands in a segment cannot leave it."""
        # `.` and `..` are not escaped by anybody, and would be taken for steps.
        segments = [
            quote(segment, safe="~").replace(".", "%2E") if set(segment) == {"."} else quote(segment, safe="~")
            for segment in request.path
        ]
        pairs = [(key, _word(value)) for key, value in request.query.items() if value is not None]
        return "/".join([self.url, *segments]) + (f"?{urlencode(pairs)}" if pairs else "")

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return what httpx is given of a request, beside its method and URL."""
        headers: dict[str, str] = {**self._headers, **request.headers}
        content: bytes | None = None
        if request.body is not None:
            headers["content-type"] = "application/json"
            try:
                content = json.dumps(request.body, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise FulguriteError(f"a request cannot be written as JSON: {error}") from error
        return {"headers": headers, "content": content, "timeout": request.seconds}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
