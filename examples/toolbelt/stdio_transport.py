"""MCP over the standard input and output of a process, with limits for a server that does not keep to the protocol.

A line that is longer than the limit or is no JSON-RPC ends the connection, so that whoever waits for an answer is told
at once, and `fault` says what the server did.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from contextlib import asynccontextmanager

import anyio
import mcp_types
from mcp.shared.message import SessionMessage


class StdioTransport:
    """A server that is started as a process. It is given to `mcp.Client` as its transport."""

    def __init__(self, command, *, cwd=None, environment=None, greatest_line):
        self.command, self.cwd, self.environment, self.greatest_line = command, cwd, environment, greatest_line
        self.fault = None
        self._opened = None

    async def __aenter__(self):
        self._opened = self._open()
        return await self._opened.__aenter__()

    async def __aexit__(self, *what):
        return await self._opened.__aexit__(*what)

    @asynccontextmanager
    async def _open(self):
        with tempfile.TemporaryFile() as log:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                cwd=self.cwd,
                env=self.environment,
                limit=self.greatest_line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
            to_client, from_server = anyio.create_memory_object_stream(16)
            to_server, from_client = anyio.create_memory_object_stream(16)
            reading = asyncio.create_task(self._read(process, to_client, log))
            writing = asyncio.create_task(self._write(process, from_client, to_client))
            try:
                yield from_server, to_server
            finally:
                with anyio.CancelScope(shield=True):
                    for stream in (to_server, from_server, to_client, from_client):
                        stream.close()
                    for task in (reading, writing):
                        task.cancel()
                    await asyncio.gather(reading, writing, return_exceptions=True)
                    await _end(process)

    async def _read(self, process, to_client, log):
        try:
            while line := await self._line(process):
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                await to_client.send(SessionMessage(message))
            # Its exit status is there a moment after the end of its output.
            await _has_left(process, 1)
            self.fault = self.fault or _how_it_ended(process, log)
        except ValueError:
            self.fault = "it said what is no JSON-RPC, and was ended"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        finally:
            to_client.close()

    async def _line(self, process):
        """The next line, or nothing at the end, or if it is too long: `fault` then says so."""
        try:
            return await process.stdout.readline()
        except ValueError:
            self.fault = f"it said more than {self.greatest_line} bytes in one line, and was ended"
            return b""

    async def _write(self, process, from_client, to_client):
        try:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (OSError, anyio.ClosedResourceError):
            to_client.close()


def _how_it_ended(process, log):
    log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    last_line = f": {lines[-1][:200]}" if lines else ""
    if process.returncode is None:
        return "it closed its output"
    if process.returncode < 0:
        return f"it was ended by signal {-process.returncode}{last_line}"
    return f"it ended with status {process.returncode}{last_line}"


async def _end(process):
    """Closes its input, and kills it with all that it has started unless it leaves."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    await _has_left(process, 0.5)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await _has_left(process, 5)
    # Its output may be left open by somebody whom it has started.
    process._transport.close()


async def _has_left(process, seconds):
    """Waits for its end: `process.wait()` would wait for the end of its output, too."""
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)
