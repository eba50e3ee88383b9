"""One MCP server as an agent sees it: its tools, and calls that end within their time, in words."""

import asyncio
import dataclasses
import threading

import mcp_types
from mcp.shared.exceptions import MCPError
from stdio_transport import StdioTransport

from mcp import Client


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server may take."""

    start_seconds: float = 120.0
    call_seconds: float = 20.0
    greatest_line: int = 4 * 1024 * 1024  # bytes that a server may say at once
    greatest_arguments: int = 64 * 1024  # bytes
    greatest_result: int = 16 * 1024  # characters that are shown of a result
    greatest_schema: int = 8 * 1024  # characters
    tools_of_a_server: int = 256
    strikes: int = 2  # calls without an answer, one after the other, after which a server is given up


class ServerFault(Exception):
    """A server did not do what was asked, in words that name it."""


class Loop:
    """The event loop of all connections of a process, in a thread of its own."""

    _shared = None

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    @classmethod
    def shared(cls):
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def start(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine):
        return self.start(coroutine).result()


class Connection:
    """A session with one server, opened and closed by one task, as the SDK wants it."""

    def __init__(self, name, target, limits, mode="auto"):
        self.name, self.target, self.limits, self.mode = name, target, limits, mode
        self.tools = []
        self.fault = None  # why it cannot be used any more, in words
        self._client = None
        self._strikes = 0
        self._opened = self._closing = None
        self._task = None

    async def open(self):
        """Starts the session; afterwards there are `tools`, or a `fault`."""
        self._opened, self._closing = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._live())
        waiting = asyncio.create_task(self._opened.wait())
        done, _ = await asyncio.wait(
            [waiting, self._task], timeout=self.limits.start_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        if not done:
            self.fault = f"it was not ready within {self.limits.start_seconds:g} s"
            self._task.cancel()

    async def _live(self):
        try:
            async with Client(self.target, mode=self.mode, cache=None) as client:
                self.tools = await self._listed(client)
                self._client = client
                self._opened.set()
                await self._closing.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # also groups of exceptions, as task groups raise them
            self.fault = self.fault or self._fault_of(error)
        finally:
            self._client = None
            self._opened.set()

    async def _listed(self, client):
        tools, cursor = [], None
        while len(tools) <= self.limits.tools_of_a_server:
            page = await client.list_tools(cursor=cursor)
            tools.extend(page.tools)
            cursor = page.next_cursor
            if not cursor:
                return tools[: self.limits.tools_of_a_server]
        raise ValueError(f"it declares more than {self.limits.tools_of_a_server} tools")

    def _fault_of(self, error):
        # Groups of exceptions; Python 3.10 has no name for them.
        while grouped := getattr(error, "exceptions", None):
            error = grouped[0]
        fault = isinstance(self.target, StdioTransport) and self.target.fault
        return fault or _one_line(f"{type(error).__name__}: {error}")

    async def call(self, tool, arguments):
        """What a tool answers: its text, and whether it is an error of the tool's own.

        Raises `ServerFault`."""
        if self.fault or self._client is None:
            raise ServerFault(f"the server {self.name} is gone: {self.fault or 'it was not started'}")
        seconds = self.limits.call_seconds
        try:
            result = await asyncio.wait_for(self._client.call_tool(tool, arguments), seconds)
        except asyncio.TimeoutError:
            raise self._strike(f"did not answer within {seconds:g} s") from None
        except MCPError as error:
            if await self._has_ended():
                raise ServerFault(f"the server {self.name} is gone: {self.fault}") from None
            if error.error.code == mcp_types.CONNECTION_CLOSED:
                raise self._strike("closed the connection") from None
            raise ServerFault(f"the server {self.name} refused the call: {_one_line(str(error))}") from None
        except Exception as error:
            await self._has_ended()
            words = self.fault or _one_line(f"{type(error).__name__}: {error}")
            raise ServerFault(f"the server {self.name} did not keep to the protocol: {words}") from None
        self._strikes = 0
        return _text_of(result), bool(result.is_error)

    def _strike(self, what):
        """A call without an answer. After a few of them the server is given up."""
        self._strikes += 1
        if self._strikes >= self.limits.strikes:
            self.fault = f"it {what}, {self._strikes} times in a row"
            self._closing.set()
        return ServerFault(f"the server {self.name} {what}")

    async def _has_ended(self):
        """Whether the server is gone; then `fault` says why."""
        target = self.target
        if isinstance(target, StdioTransport):
            for _ in range(20):
                if target.fault:
                    self.fault = target.fault
                    self._closing.set()
                    return True
                await asyncio.sleep(0.01)
        return self.fault is not None

    async def close(self):
        if self._task is not None:
            self._closing.set()
            done, _ = await asyncio.wait([self._task], timeout=5)
            if not done:
                self._task.cancel()


def _one_line(text):
    return " ".join(text.split())[:300]


def _text_of(result):
    """A result as text; what is not text is named."""
    parts = [
        part.text if getattr(part, "type", None) == "text" else f"[{getattr(part, 'type', 'something')}, not shown]"
        for part in result.content
    ]
    return "\n".join(parts)
