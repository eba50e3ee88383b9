"""Tool calls as Qwen3 writes them, for the scripts of host.py."""

import json

THOUGHT = "<think>\nA file, then.\n</think>\n\n"
# The tool of each agent's shell, and what a command is called there.
SHELLS = {"Bash": "command", "exec_command": "cmd", "bash": "command", "run_shell_command": "command", "execute_command": "command"}


def shell_of(text):
    """The shell's tool among those that a prompt declares."""
    return next((shell for shell in SHELLS if declares(text, shell)), None)


def declares(text, tool):
    return f'"name": "{tool}"' in text


def call(tool, **arguments):
    return "<tool_call>\n" + json.dumps({"name": tool, "arguments": arguments}) + "\n</tool_call>"


def shell_calls(shell, *commands):
    return "\n".join(call(shell, **{SHELLS[shell]: command, "description": "Runs a command"}) for command in commands)
