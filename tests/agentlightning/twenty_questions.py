"""The twenty questions of Agent-lightning's own examples (0.3, `examples/tinker/q20_agent.py`), unmodified, from a checkout of
its repository: a warm agent (docs/how-to/warm-agents.md) around its CrewAI Flow.

    AGENT_LIGHTNING=path/to/agent-lightning python3 twenty_questions.py

The player is the model that is trained. The answerer is the same model, whose answers are not: there is no other.
"""

import os
import sys
from pathlib import Path

# CrewAI reads these when it is imported; it would call its makers' servers otherwise.
for name in ("CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "CREWAI_DISABLE_VERSION_CHECK", "OTEL_SDK_DISABLED"):
    os.environ[name] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

sys.path.insert(0, str(Path(os.environ["AGENT_LIGHTNING"]) / "examples" / "tinker"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import q20_agent
from crewai import LLM
from fulgurite_agent import serve
from rich.console import Console

# Standard output is how a warm agent answers.
q20_agent.console = Console(file=sys.stderr)


def run(task):
    where = {"base_url": task.base_url, "api_key": task.api_key, "timeout": 600.0}
    player = LLM(model="player", provider="openai", max_completion_tokens=48, **where)
    answerer = LLM(
        model="player",
        provider="openai",
        max_completion_tokens=128,
        response_format=q20_agent.AnswererResponse,
        default_headers={"x-fulgurite-trainable": "false"},
        **where,
    )
    flow = q20_agent.TwentyQuestionsFlow(player_llm=player, answer_llm=answerer)
    flow.kickoff({"answer": task.input["answer"], "category": task.input["category"]})
    return {"reward": 1.0 if flow.state.correct else 0.0, "turns": len(flow.state.interactions)}


if __name__ == "__main__":
    serve(run)
