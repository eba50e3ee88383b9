"""Runs each client against a server of this program, and writes what it can as the table of docs/reference/clients.md.

Coding agents play the scripted trials of `fulgurite harness check`; programs on frameworks have two conversations in each
dialect, whole and streamed. A client that is not installed stands in the table as not run. tests/agents/install installs
the agents, and tests/run the frameworks; run this by the Python of the former, which has what the scripted model needs:

    tests/agents/install && target/agents/python/bin/python tests/agents/clients.py --write
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import PROGRAM, ROOT, listed, served, start

PAGE = ROOT / "docs/reference/clients.md"
COLUMNS = ["client", "version", "dialect", "streaming", "tools", "exact tokens", "continuation"]
# By the name that `fulgurite harness check` has for it: what the table calls it.
AGENTS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "opencode",
    "mini-swe-agent": "mini-swe-agent",
    "gemini": "Gemini CLI",
    "google-adk": "Agent Development Kit",
}
@dataclass(frozen=True)
class Framework:
    """A program on a framework, which has a conversation or more with each of the servers that it is given."""

    label: str
    package: str
    # Below the root.
    program: str
    # The dialect of each server's conversation, and whether its answers are streamed.
    conversations: list[tuple[str, str]]
    # Where its packages are: below --home, or by default --python.
    home: str | None = None
    # Those that it declares.
    tools: int = 1


def both(*dialects):
    return [(dialect, way) for dialect in dialects for way in ("whole", "streamed")]


CLIENTS, PROGRAMS = "proxy/tests/clients", "tests/agents/programs"
FRAMEWORKS = {
    "openai_agents": Framework(
        "OpenAI Agents SDK", "openai-agents", f"{CLIENTS}/openai_agents.py", both("Responses", "Chat Completions")
    ),
    "langgraph_agents": Framework(
        "LangGraph", "langgraph", f"{CLIENTS}/langgraph_agents.py", both("Chat Completions", "Responses")
    ),
    "pydantic_agents": Framework(
        "PydanticAI", "pydantic-ai-slim", f"{CLIENTS}/pydantic_agents.py", both("Chat Completions", "Responses", "Messages")
    ),
    "smolagents": Framework(
        "smolagents", "smolagents", f"{PROGRAMS}/smolagents_agent.py", both("Chat Completions"), "smolagents", 2
    ),
    "llama-index": Framework(
        "llama-index ReAct", "llama-index-core", f"{PROGRAMS}/llama_index_agent.py", [("Chat Completions", "streamed")],
        "llama-index", 0,
    ),
    "inspect-ai": Framework(
        "Inspect", "inspect-ai", f"{PROGRAMS}/inspect_task.py",
        [("Responses", "whole"), ("Chat Completions", "whole"), ("Messages", "streamed")], "inspect"
    ),
    "aider": Framework("aider", "aider-chat", f"{PROGRAMS}/aider_edit.py", [("Chat Completions", "streamed")], "aider", 0),
    "autogen": Framework("AutoGen", "autogen-agentchat", f"{PROGRAMS}/autogen_agent.py", both("Chat Completions"), "autogen"),
    "strands": Framework(
        "Strands", "strands-agents", f"{PROGRAMS}/strands_agent.py",
        [("Chat Completions", "streamed"), ("Messages", "streamed")], "strands"
    ),
    "agno": Framework("Agno", "agno", f"{PROGRAMS}/agno_agent.py", both("Chat Completions"), "agno"),
    "crewai": Framework("CrewAI", "crewai", f"{PROGRAMS}/crewai_crew.py", both("Chat Completions"), "crewai"),
    "dspy": Framework("DSPy ReAct", "dspy", f"{PROGRAMS}/dspy_program.py", [("Chat Completions", "whole")], "dspy", 0),
    "ai-sdk": Framework(
        "AI SDK", "ai", f"{PROGRAMS}/ai_sdk.mjs",
        [("Chat Completions", "streamed"), ("Responses", "streamed"), ("Messages", "streamed")], "ai-sdk/node_modules"
    ),
}


def not_run(client, why):
    return {"client": client, "version": "", "dialect": f"not run: {why}", **dict.fromkeys(COLUMNS[3:], "")}


def failed(client, version, why):
    lines = [line for line in why.strip().splitlines() if line.strip()]
    return {**not_run(client, ""), "version": version, "dialect": f"failed: {lines[-1][:120] if lines else 'no output'}"}


def agent(name, home, timeout):
    """A row of a coding agent, from what the check of its harness found."""
    client = AGENTS[name]
    path = os.pathsep.join([str(home / "node_modules/.bin"), str(home / "python/bin"), os.environ["PATH"]])
    command = [PROGRAM, "harness", "check", name, "--json"]
    if name == "google-adk":
        # A library, of which the check knows no program.
        python = home / "adk/bin/python"
        if not python.exists():
            return not_run(client, "not installed")
        command = [PROGRAM, "harness", "check", "--json", "--", python, ROOT / "tests/agents/programs/adk_agent.py", "checked", "{task}"]
    try:
        run = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return failed(client, "", f"no end within {timeout:.0f} s")
    if "there is no program" in run.stderr:
        return not_run(client, "not installed")
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return failed(client, "", run.stderr)
    report = json.loads(lines[-1])
    found = {finding["check"]: finding for finding in report["findings"]}
    version = report["version"] or version_of(home / ("adk" if name == "google-adk" else "python"), name) or ""
    if not found["dialect"]["facts"]:
        return failed(client, version, found["dialect"]["message"])
    ways = found["dialect"]["message"].split("; ")
    going_on = found["continuation"]["facts"]
    exact = "yes" if going_on["calls"] and going_on["calls"] == going_on["continued"] else "no"
    return {
        "client": client,
        "version": version,
        "dialect": ", ".join(sorted({way.rsplit(", ", 1)[0] for way in ways})),
        "streaming": ", ".join(sorted({way.rsplit(", ", 1)[1] for way in ways})),
        "tools": str(found["tools"]["facts"]["offered"]),
        "exact tokens": exact,
        "continuation": f"{going_on['continued']} of {going_on['calls']} later calls",
    }


def version_of(environment, package):
    """The version of a package of a virtual environment, or of Node's; `None` if it is not there."""
    manifest = environment / package / "package.json"
    if environment.name == "node_modules" and manifest.exists():
        return json.loads(manifest.read_text())["version"]
    python = environment / "bin/python"
    if not python.exists():
        return None
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    ended = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return ended.stdout.strip() if ended.returncode == 0 else None


def framework(name, homes, timeout):
    """A row of a framework, from what is recorded of its conversations, each of which has an attempt."""
    spec = FRAMEWORKS[name]
    environment = homes[spec.home is not None] / (spec.home or "")
    version = version_of(environment, spec.package)
    if version is None:
        return not_run(spec.label, "not installed")
    if importlib.util.find_spec("tokenizers") is None:
        return not_run(spec.label, f"{sys.executable} has no tokenizers, which the model's host needs")
    keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        with served(work, "add_with_tool") as url:
            attempts = [start(url) for _ in spec.conversations]
            runtime = "node" if spec.program.endswith(".mjs") else environment / "bin/python"
            command = [runtime, ROOT / spec.program, *(base for _, base in attempts)]
            environ = {"HOME": place, "PATH": os.environ["PATH"], "NODE_MODULES": str(environment), **keys}
            try:
                ended = subprocess.run(command, cwd=work, env=environ, capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                return failed(spec.label, version, f"no end within {timeout:.0f} s")
        conversations = [listed(work, "generations", rollout) for rollout, _ in attempts]
    if ended.returncode != 0:
        return failed(spec.label, version, ended.stderr)
    dialects, ways = zip(*spec.conversations)
    return {
        "client": spec.label,
        "version": version,
        "dialect": ", ".join(dict.fromkeys(dialects)),
        "streaming": ", ".join(sorted(set(ways))),
        "tools": str(spec.tools),
        **continuation(conversations),
    }


def continuation(conversations):
    """How many later calls of conversations go on token by token, and whether all do so by exactly what was sampled."""
    later, exact = 0, 0
    for recorded in conversations:
        # What a client asks beside the task is marked, and goes on from nothing.
        calls = [call for call in recorded if not str(call["defect"]).startswith("auxiliary")]
        by_id = {call["generation_id"]: call for call in calls}
        later += max(len(calls) - 1, 0)
        for call in calls[1:]:
            parent = by_id.get(call["parent_id"])
            history = parent and parent["prompt_tokens"] + parent["sampled_tokens"]
            exact += bool(history) and call["prompt_tokens"][: len(history)] == history
    return {"exact tokens": "yes" if later and exact == later else "no", "continuation": f"{exact} of {later} later calls"}


def table(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row[column].replace("|", "/") for column in COLUMNS) + " |" for row in rows]
    return "\n".join(lines)


def write(rows):
    """Puts the table between the page's marks."""
    begin, end = "<!-- table -->", "<!-- end of table -->"
    page = PAGE.read_text()
    before, rest = page.split(begin, 1)
    after = rest.split(end, 1)[1]
    PAGE.write_text(f"{before}{begin}\n\n{table(rows)}\n\n{end}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", metavar="CLIENT", nargs="*", help=f"of {', '.join([*AGENTS, *FRAMEWORKS])}; else all")
    parser.add_argument("--home", type=Path, default=ROOT / "target/agents", help="where tests/agents/install put the agents")
    parser.add_argument("--python", type=Path, default=ROOT / "target/python", help="the environment with the frameworks")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds that one client may take")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}, too")
    given = parser.parse_args()
    unknown = [name for name in given.clients if name not in {**AGENTS, **FRAMEWORKS}]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such client")
    if given.write and given.clients:
        parser.error("--write is of the whole table: leave the clients out")
    if not PROGRAM.exists():
        parser.error(f"there is no {PROGRAM}: build it, or name it in FULGURITE_PROGRAM")
    rows = []
    for name in given.clients or [*AGENTS, *FRAMEWORKS]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            if name in AGENTS:
                rows.append(agent(name, given.home.resolve(), given.timeout))
            else:
                rows.append(framework(name, (given.python.resolve(), given.home.resolve()), given.timeout))
        except Exception as error:  # one client that fails in another way must not cost the others their rows
            client = AGENTS[name] if name in AGENTS else FRAMEWORKS[name].label
            rows.append(failed(client, "", repr(error)))
    print(table(rows))
    if given.write:
        write(rows)


if __name__ == "__main__":
    main()
