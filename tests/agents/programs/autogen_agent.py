"""An agent of AutoGen that adds with a tool. usage: autogen_agent.py BASE_URL...

Asks two questions of one context, whole of the first server and streamed of the second."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

MODEL = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def ask(url, streams):
    client = OpenAIChatCompletionClient(model="tiny", base_url=url, api_key="none", model_info=MODEL)
    agent = AssistantAgent("adder", client, tools=[add], max_tool_iterations=4, model_client_stream=streams)
    for question in ("17 + 4?", "Sure?"):
        result = await agent.run(task=question)
        assert result.messages[-1].content == "Yes.", result


async def main():
    for url, streams in zip(sys.argv[1:], (False, True), strict=True):
        await ask(url, streams)


asyncio.run(main())
