"""An MCP server over stdio with one tool."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("demo")


@server.tool()
def lookup(key: str) -> str:
    """Looks up the value of a key."""
    return f"the value of {key} is {key[::-1]}"


server.run("stdio")
