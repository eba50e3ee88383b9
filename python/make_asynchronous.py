"""Writes the async client, which is the sync one with `await`: python3 python/make_asynchronous.py.

A test holds that `asynchronous.py` is what this writes.
"""

from __future__ import annotations

import re
from pathlib import Path

CLIENT = Path(__file__).parent / "fulgurite" / "client"

# In this order. Names with an underscore that are awaited are those that send.
CHANGES = [
    (r"The client whose methods return when the server has answered\.", "The client whose methods are coroutines."),
    (r'"""The client.*\n', r"\g<0>\n# Written by python/make_asynchronous.py from synchronous.py.\n"),
    (r"^import time\n", "import asyncio\n"),
    (r"time\.sleep", "await asyncio.sleep"),
    (r"httpx\.Client", "httpx.AsyncClient"),
    (r"class Client", "class AsyncClient"),
    (r'bound="Client"', 'bound="AsyncClient"'),
    (r"    def (?!__init__|url)", "    async def "),
    (r"__enter__", "__aenter__"),
    (r"__exit__", "__aexit__"),
    (r"self\._run\(", "await self._run("),
    (r"self\._send\(", "await self._send("),
    (r"self\._http\.request\(", "await self._http.request("),
    (r"self\.close\(\)", "await self.close()"),
    (r"self\._http\.close\(\)", "await self._http.aclose()"),
]


def asynchronous() -> str:
    """Return what the async client's file must hold."""
    text = (CLIENT / "synchronous.py").read_text()
    for pattern, replacement in CHANGES:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    (CLIENT / "asynchronous.py").write_text(asynchronous())
