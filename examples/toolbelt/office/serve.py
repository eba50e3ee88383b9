"""One of the nine MCP servers, over a world's directory.

    python -m office.serve mail --world DIRECTORY                               # over stdio
    python -m office.serve mail --world DIRECTORY --http --ready FILE           # over streamable HTTP

With --http a free port is taken unless --port says which, and the URL is written to --ready. Such a server ends by
itself when its world is gone, whatever became of who started it.
"""

import argparse
import functools
import inspect
import os
import socket
import sys
import threading
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from . import servers
from .world import OfficeError, use_in_process, world


def as_tool(function):
    """The function as the SDK takes it: told of in the world's audit, with mistakes in words that are for the model."""

    async def call(**arguments):
        world().audit(function.__name__, arguments)
        try:
            return function(**arguments)
        except (OfficeError, UnicodeError) as error:
            raise ToolError(str(error)) from None

    functools.update_wrapper(call, function)
    call.__signature__ = inspect.signature(function)
    return call


def server(name, tools):
    """An MCP server with these tools."""
    made = MCPServer(name, log_level="ERROR")
    for tool in tools:
        made.add_tool(as_tool(tool), structured_output=False)
    return made


def end_with(directory):
    """Ends this process once its world is gone."""

    def look():
        while os.path.isdir(directory):
            time.sleep(0.25)
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()


def serve_http(made, port, ready, directory):
    import uvicorn

    listener = socket.create_server(("127.0.0.1", port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    end_with(directory)
    if ready:
        with open(f"{ready}.new", "w", encoding="utf-8") as file:
            file.write(url)
        os.replace(f"{ready}.new", ready)
    else:
        print(url, flush=True)
    config = uvicorn.Config(made.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


def main():
    parser = argparse.ArgumentParser(prog="office.serve")
    parser.add_argument("name", choices=servers.SERVERS)
    parser.add_argument("--world", required=True)
    parser.add_argument("--small", action="store_true", help="only its tools of the twelve")
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready", help="file to which the URL is written")
    options = parser.parse_args()
    if not os.path.isdir(options.world):
        sys.exit(f"there is no world {options.world}")
    use_in_process(options.world)
    tools = (servers.small() if options.small else servers.SERVERS).get(options.name, [])
    made = server(options.name, tools)
    if options.http:
        serve_http(made, options.port, options.ready, options.world)
    else:
        made.run("stdio")


if __name__ == "__main__":
    main()
