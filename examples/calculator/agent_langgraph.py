"""The agent in LangGraph, as its own guide begins: a chat model, a tool, and the agent that is made for both.

    OPENAI_BASE_URL=http://127.0.0.1:4747/v1 OPENAI_API_KEY=none python3 agent_langgraph.py 17     # one task
    python3 agent_langgraph.py                              # all that come on standard input (docs/how-to/warm-agents.md)
"""

import sys
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import httpx
    from langchain.agents import create_agent
    from langchain.tools import ToolRuntime, tool
    from langchain_openai import ChatOpenAI
    from langgraph.errors import GraphRecursionError
except ModuleNotFoundError as missing:
    needed = "the packages langchain, langchain-openai and langgraph"
    sys.exit(f"agent_langgraph.py needs {needed} ({missing}): pip install -r requirements.txt")

import episodes
import sums
from grade import Made, Record, RequestedCall

# One for all episodes: a client of its own costs each some 50 ms.
CONNECTIONS = httpx.Client(timeout=600)


@tool(description=sums.DESCRIPTION)
def calculator(a: int, op: Literal["add", "subtract", "multiply"], b: int, runtime: ToolRuntime[Record]) -> str:
    result = sums.work_out(a, op, b)
    runtime.context.made.append(Made(a, op, b, result))
    return str(result)


def play(question, **connection):
    """Has the agent answer a question. Without `base_url` and `api_key` the environment says where the model is."""
    model = ChatOpenAI(model="clerk", max_completion_tokens=64, http_client=CONNECTIONS, **connection)
    agent = create_agent(model, tools=[calculator], system_prompt=sums.INSTRUCTIONS, context_schema=Record)
    record, messages = Record(), []
    limit = {"recursion_limit": 2 * episodes.TURNS}
    opening = {"messages": [{"role": "user", "content": question}]}
    try:
        for state in agent.stream(opening, limit, context=record, stream_mode="values"):
            messages = state["messages"]
    except GraphRecursionError:
        pass  # it still calls when its turns are over, and so has no answer
    requested = [
        RequestedCall(call["name"], call["args"])
        for message in messages
        if message.type == "ai"
        for call in [*message.tool_calls, *message.invalid_tool_calls]
    ]
    last = messages[-1] if messages else None
    is_answer = last is not None and last.type == "ai" and not last.tool_calls
    return requested, record.made, last.text if is_answer else None


if __name__ == "__main__":
    episodes.main(play)
