"""Looks something up with a tool of an MCP server, and says what it was told."""

import re

from calls import call, declares

THOUGHT = "<think>\nI look it up.\n</think>\n\n"
TOOL = "mcp__demo__lookup"


def answer(text):
    """What is said to a prompt, and whether it breaks off."""
    if not declares(text, TOOL):
        return "A title", False
    values = re.findall(r"the value of (\w+) is (\w+)", text)
    if values:
        return f"{THOUGHT}It is {values[-1][1]}.", False
    return THOUGHT + call(TOOL, key="amber"), False
