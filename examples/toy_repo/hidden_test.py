"""The hidden tests: pytest runs them in this directory, which no agent sees, for what toy_repo.py grades.

What is tested never runs in pytest's own process, where it could say that its tests have passed: each expression is
evaluated by a Python of its own in a sandbox, which knows the expression and not what it should be worth.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import BY_NAME

SECONDS = 20
MOST_BYTES = 1 << 16
MEMORY = 1 << 30

# Runs in the sandbox: all lines but the last, then the last one, whose worth is written as JSON.
EVALUATE = """
import importlib, json, sys
sys.path.insert(0, "/repository")
*lines, last = sys.argv[2].split("\\n")
try:
    names = dict(vars(importlib.import_module(sys.argv[1])))
    exec("\\n".join(lines), names)
    worth = eval(last, names)
except Exception as error:
    worth = {"raised": type(error).__name__}
sys.__stdout__.write("\\n" + json.dumps(worth))
"""


def in_sandbox(world):
    """What shows a command the system's programs, this Python and the repository, and neither network nor tests."""
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--tmpfs", "/tmp"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    python = Path(sys.executable).resolve()
    prefix = Path(sys.base_prefix).resolve()
    shown = [Path(path) for path in ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache")]
    for path in shown if prefix.is_relative_to("/usr") else [*shown, prefix]:
        words += ["--ro-bind-try", path, path]
    return [*words, "--ro-bind", world, "/repository", "--chdir", "/repository", python, "-I", "-c", EVALUATE]


def within_limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))


def worth(name, expression):
    """What the agent's module says that an expression is worth."""
    command = [*in_sandbox(os.environ["FULGURITE_WORLD"]), name, expression]
    with open(os.memfd_create("worth"), "w+b") as output:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, timeout=SECONDS,
            preexec_fn=within_limits,
        )
        output.seek(0)
        text = output.read(MOST_BYTES + 1)
    assert ran.returncode == 0, f"it exited with status {ran.returncode}"
    return json.loads(text.splitlines()[-1])


NAME = os.environ.get("TOY_REPO", "slugs")


@pytest.mark.parametrize(("expression", "expected"), BY_NAME[NAME].cases.items())
def test_case(expression, expected):
    # As text, for which True is not 1.
    assert json.dumps(worth(NAME, expression)) == json.dumps(expected)
