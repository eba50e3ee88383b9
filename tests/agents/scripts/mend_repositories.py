"""Solves the tasks of examples/toy_repo: has the agent look around, read the module, correct it and look at what changed.

Agents that have tools to read and to edit are told to use those, the others their shell; where there are sub-agents, one of
them reads the module first.
"""

import sys
from pathlib import Path

from calls import THOUGHT, call, declares, shell_calls, shell_of

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/toy_repo"))
from repositories import REPOSITORIES

PLACE = "/repository"
# The tools of an agent's that start another, and the names of their arguments.
SUB_AGENTS = {
    "Agent": {"subagent_type": "general-purpose"},
    "Task": {"subagent_type": "general-purpose"},
    "task": {"subagent_type": "general"},
}
READERS = {"Read": "file_path", "read": "filePath"}
EDITORS = {"Edit": ("file_path", "old_string", "new_string"), "edit": ("filePath", "oldString", "newString")}
# What ends mini-swe-agent, for which an answer without a call is a mistake.
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def look_closely(repository):
    return f"Say in a sentence what {repository.file} is for."


def declared(text, tools):
    return next((tool for tool in tools if declares(text, tool)), None)


def answer(text):
    """What is said to a prompt; no answer breaks off."""
    shell = shell_of(text)
    if shell is None:
        return "A title", False
    turns = text.count("<|im_start|>assistant") - 1
    # Not by its issue, whose quotes some agents escape.
    own = next((each for each in REPOSITORIES if f"The module is {each.file}." in text), None)
    reply = main_agent(own, text, shell, turns) if own else sub_agent(text, shell, turns)
    return THOUGHT + reply, False


def sub_agent(text, shell, turns):
    repository = next((each for each in REPOSITORIES if look_closely(each) in text), None)
    if repository is None or turns > 0:
        return "It is one module of a few lines."
    return shell_calls(shell, f"cat {repository.file}")


def main_agent(repository, text, shell, turns):
    starter, reader, editor = (declared(text, tools) for tools in (SUB_AGENTS, READERS, EDITORS))
    file = f"{PLACE}/{repository.file}"
    steps = [shell_calls(shell, "ls", "cat README.md")]
    if starter:
        task = look_closely(repository)
        steps.append(call(starter, description="Look at the module", prompt=task, **SUB_AGENTS[starter]))
    steps.append(call(reader, **{READERS[reader]: file}) if reader else shell_calls(shell, f"cat {repository.file}"))
    if editor:
        steps.append(call(editor, **dict(zip(EDITORS[editor], (file, repository.broken, repository.repaired)))))
    else:
        steps.append(shell_calls(shell, f"cat > {repository.file} <<'EOF'\n{repository.repaired}EOF"))
    steps.append(shell_calls(shell, "git diff --stat"))
    if turns < len(steps):
        return steps[turns]
    return shell_calls(shell, f"echo {SUBMIT}") if SUBMIT in text else "It is mended."
