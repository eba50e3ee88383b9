"""What can go wrong between a client and its server."""

from __future__ import annotations


class FulguriteError(Exception):
    """Any error of the client."""


class UnreachableError(FulguriteError):
    """The server was out of reach, or too busy, for longer than the client's patience."""

    def __init__(self, url: str, patience: float, reason: str) -> None:
        """Say which URL was out of reach, for how long, and what was seen last."""
        self.url, self.patience, self.reason = url, patience, reason
        super().__init__(f"{url} was out of reach for {patience:g} s: {reason}; does `fulgurite serve` run there?")


class RefusedError(FulguriteError):
    """The server will not do what it was asked to."""

    def __init__(self, url: str, status: int, message: str) -> None:
        """Say which URL refused, with which status, in the server's words."""
        self.url, self.status, self.message = url, status, message
        super().__init__(self._text())

    def _text(self) -> str:
        return f"{self.url} refused (status {self.status}): {self.message}"


class KeyRefusedError(RefusedError):
    """The server wants another key."""

    def _text(self) -> str:
        return (
            f"{self.url} wants the server's admin key: {self.message} (status {self.status}); "
            "set FULGURITE_ADMIN_KEY or pass admin_key"
        )


class RouteMissingError(RefusedError):
    """The server does not know the route."""

    def _text(self) -> str:
        return (
            f"{self.url} is not there (status {self.status}): is that a Fulgurite server, and as new as this package?"
        )


class ReplyError(FulguriteError):
    """The server's answer is not what was asked for."""

    def __init__(self, url: str, reason: str) -> None:
        """Say which URL answered, and what is wrong with the answer."""
        self.url, self.reason = url, reason
        super().__init__(f"{url} gave an answer that cannot be used: {reason}")
