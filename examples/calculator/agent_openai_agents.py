"""The agent in OpenAI's Agents SDK, as its own guide begins: an agent with a tool, and a runner.

    OPENAI_BASE_URL=http://127.0.0.1:4747/v1 OPENAI_API_KEY=none python3 agent_openai_agents.py 17     # one task
    python3 agent_openai_agents.py                              # all that come on standard input (docs/how-to/warm-agents.md)
"""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    from agents import Agent, ModelSettings, OpenAIProvider, RunConfig, RunContextWrapper, Runner, function_tool
    from agents.exceptions import AgentsException
except ModuleNotFoundError as missing:
    sys.exit(f"agent_openai_agents.py needs the package openai-agents ({missing}): pip install -r requirements.txt")

import episodes
import sums
from grade import Made, Record, RequestedCall


@function_tool(description_override=sums.DESCRIPTION)
def calculator(wrapper: RunContextWrapper[Record], a: int, op: Literal["add", "subtract", "multiply"], b: int) -> str:
    result = sums.work_out(a, op, b)
    wrapper.context.made.append(Made(a, op, b, result))
    return str(result)


AGENT = Agent(
    name="Clerk",
    instructions=sums.INSTRUCTIONS,
    model="clerk",
    model_settings=ModelSettings(max_tokens=64),
    tools=[calculator],
)
# One for all episodes: the SDK's clients share their connections, and a connection is of no use to any loop but the one
# that opened it.
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def play(question, **connection):
    """Has the agent answer a question. Without `base_url` and `api_key` the environment says where the model is."""
    config = RunConfig(
        model_provider=OpenAIProvider(**connection),
        tool_not_found_behavior="return_error_to_model",
        tracing_disabled=True,
    )
    record = Record()
    try:
        running = Runner.run(AGENT, question, context=record, max_turns=episodes.TURNS, run_config=config)
        result = asyncio.run_coroutine_threadsafe(running, LOOP).result()
        items, answer = result.new_items, result.final_output
    except AgentsException as ended:
        if ended.run_data is None:
            raise
        items, answer = ended.run_data.new_items, None
    calls = [item.raw_item for item in items if item.type == "tool_call_item"]
    return [RequestedCall(call.name, call.arguments) for call in calls], record.made, answer


if __name__ == "__main__":
    episodes.main(play)
