"""The belt of an agent: a few tools that are always there, and those that it takes from MCP servers as it needs them.

    belt = Belt({"mail": StdioTransport([...]), "rooms": "http://127.0.0.1:8000/mcp"})
    belt.open()
    belt.declarations()                       # for the `tools` of a chat request: what is on the belt now
    belt.call("toolbelt_add_tool", '{"name": "mail_send"}')
    belt.call("mail_send", '{"to": "ann", "text": "Hello"}')
    belt.answer                               # once final_answer was called
    belt.close()

Whatever a model or a server does wrong is an answer that begins with `error:` and names who did it; nothing is raised.
"""

import asyncio
import json
import re

from connection import Connection, Limits, Loop, ServerFault

MOST_ADDED = 80
FINAL = "final_answer"


def _meta(name, description, argument=None):
    parameters = {"type": "object", "properties": {argument: {"type": "string"}} if argument else {}}
    if argument:
        parameters["required"] = [argument]
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


META = [
    _meta("toolbelt_list_tools", "Lists the tools that can be added."),
    _meta("toolbelt_inspect_tool", "Shows a tool.", "name"),
    _meta("toolbelt_add_tool", "Adds a tool.", "name"),
    _meta("toolbelt_remove_tool", "Removes a tool.", "name"),
    _meta(FINAL, "Ends with an answer.", "answer"),
]
META_NAMES = [tool["function"]["name"] for tool in META]


class Refused(Exception):
    """What a call did wrong, in words for the model."""


class Belt:
    """The tools of one episode."""

    def __init__(self, targets, limits=None, mode="auto", lazily=None):
        """`targets`: by server's name what `mcp.Client` takes. `lazily`: by server's name its tools, as `tools/list`
        told them before; these servers are not started until one of their tools is called."""
        self.limits = limits or Limits()
        self.connections = {name: Connection(name, target, self.limits, mode) for name, target in targets.items()}
        self.loop = Loop.shared()
        self.answer = None
        self.errors_in_a_row = 0
        self.errors = 0
        self.refused = {}  # declarations that cannot be used, by server
        self._tools = {}  # by name: server, declaration
        self._added = []
        self._unopened = set()
        for name, tools in (lazily or {}).items():
            self._unopened.add(name)
            self._take(name, tools)

    def open(self):
        """Starts the servers, all at once. One that does not start is told of, and the others are there."""
        names = [name for name in self.connections if name not in self._unopened]
        self.loop.run(_all(self.connections[name].open() for name in names))
        for name in names:
            self._take(name, self.connections[name].tools)

    def close(self):
        self.loop.run(_all(connection.close() for connection in self.connections.values()))

    @property
    def servers(self):
        """The servers that can be used."""
        return [name for name, connection in self.connections.items() if connection.fault is None]

    def _take(self, server, tools):
        for tool in tools:
            try:
                declaration = self._declaration(tool)
                if tool.name in self._tools:
                    raise Refused(f"the server {self._tools[tool.name][0]} has a tool of that name")
                self._tools[tool.name] = (server, declaration)
            except Refused as error:
                self.refused.setdefault(server, []).append(f"{str(tool.name)[:64]!r}: {error}")

    def _declaration(self, tool):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", tool.name):
            raise Refused("that is no name of a tool")
        if tool.name in META_NAMES:
            raise Refused("the belt has a tool of that name")
        schema = compact(tool.input_schema)
        if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise Refused("its arguments are no object")
        if len(json.dumps(schema)) > self.limits.greatest_schema:
            raise Refused(f"its schema has more than {self.limits.greatest_schema} characters")
        about = (tool.description or "").strip()
        function = {"name": tool.name, "description": about[:1000], "parameters": schema}
        return {"type": "function", "function": function}

    def declarations(self):
        """The tools of the next request."""
        return META + [self._tools[name][1] for name in self._added]

    def call(self, name, arguments):
        """What the model is told of a call. `arguments` is the text that it wrote."""
        try:
            text = self._called(name, self._arguments(arguments))
        except (Refused, ServerFault) as error:
            self.errors += 1
            self.errors_in_a_row += 1
            return f"error: {error}"
        self.errors_in_a_row = 0
        return text

    def _arguments(self, text):
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self.limits.greatest_arguments:
            raise Refused(f"the arguments have {size} bytes; {self.limits.greatest_arguments} is the most")
        try:
            arguments = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise Refused(f"the arguments are no JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise Refused("the arguments are no JSON object")
        return arguments

    def _called(self, name, arguments):
        if name == "toolbelt_list_tools":
            return self._list()
        if name == "toolbelt_inspect_tool":
            return json.dumps(self._tools[self._known(arguments)][1]["function"])
        if name == "toolbelt_add_tool":
            return self._add(self._known(arguments))
        if name == "toolbelt_remove_tool":
            return self._remove(self._known(arguments))
        if name == FINAL:
            answer = arguments.get("answer")
            if not isinstance(answer, str):
                raise Refused("final_answer needs the text `answer`")
            self.answer = answer
            return "the end"
        return self._call_server(name, arguments)

    def _known(self, arguments):
        name = arguments.get("name")
        if not isinstance(name, str):
            raise Refused("the text `name` is missing: it says which tool is meant")
        if name in META_NAMES:
            raise Refused(f"{name} is always there")
        if name not in self._tools:
            raise Refused(f"there is no tool {name[:64]!r}; toolbelt_list_tools names those that there are")
        return name

    def _list(self):
        lines = [
            f"{name}: {_first_line(declaration['function']['description'])}"
            for name, (_, declaration) in self._tools.items()
            if name not in self._added
        ]
        for server, connection in self.connections.items():
            if connection.fault:
                lines.append(f"(the server {server} is gone: {connection.fault})")
            refused = self.refused.get(server, [])
            lines.extend(f"(the server {server} declares a tool that cannot be used, {why})" for why in refused)
        return self._shown("\n".join(lines) or "no more tools")

    def _add(self, name):
        if name in self._added:
            raise Refused(f"{name} is there already")
        if len(self._added) >= MOST_ADDED:
            raise Refused(f"{MOST_ADDED} tools are the most; toolbelt_remove_tool makes room")
        self._added.append(name)
        return "added"

    def _remove(self, name):
        if name not in self._added:
            raise Refused(f"{name} was not added")
        self._added.remove(name)
        return "removed"

    def _call_server(self, name, arguments):
        if name not in self._tools:
            raise Refused(f"there is no tool {name[:64]!r}; toolbelt_list_tools names those that there are")
        if name not in self._added:
            raise Refused(f"{name} is not there yet; toolbelt_add_tool adds it")
        server = self._tools[name][0]
        connection = self.connections[server]
        text, is_error = self.loop.run(self._opened_call(server, connection, name, arguments))
        if is_error:
            words = text.removeprefix(f"Error executing tool {name}").removeprefix(": ")
            raise Refused(f"{name}: {self._shown(words) or 'it failed without a word'}")
        return self._shown(text)

    async def _opened_call(self, server, connection, name, arguments):
        if server in self._unopened:
            self._unopened.discard(server)
            await connection.open()
        return await connection.call(name, arguments)

    def _shown(self, text):
        most = self.limits.greatest_result
        return text if len(text) <= most else f"{text[:most]}\n[cut off: {len(text)} characters]"


def compact(schema):
    """A schema without the titles that pydantic puts into it, which tell a model nothing."""
    if not isinstance(schema, dict):
        raise Refused("its schema is no object")
    return _without_titles(schema, False)


def _without_titles(value, is_properties):
    if isinstance(value, dict):
        return {
            key: _without_titles(each, key == "properties" and not is_properties)
            for key, each in value.items()
            if is_properties or key != "title" or not isinstance(each, str)
        }
    if isinstance(value, list):
        return [_without_titles(each, False) for each in value]
    return value


def _first_line(text):
    return text.splitlines()[0] if text else ""


async def _all(coroutines):
    await asyncio.gather(*coroutines)
