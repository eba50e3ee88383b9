"""A tool-calling agent on OpenAI's Agents SDK.

usage: openai_agents.py BASE_URL...

Asks two questions of one session in each way, of one server each: through Responses and Chat Completions, run and
streamed. Prints the answers of each way as a JSON list.
"""

import asyncio
import json
import sys

from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession
from openai import AsyncOpenAI


async def add(_, arguments):
    return str(sum(json.loads(arguments).values()))


ADD = FunctionTool(
    name="add",
    description="Adds.",
    params_json_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    on_invoke_tool=add,
    strict_json_schema=False,
)


async def answer(agent, session, question, way):
    if way == "run":
        return (await Runner.run(agent, question, session=session)).final_output
    result = Runner.run_streamed(agent, question, session=session)
    streamed = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            streamed += event.data.delta
    assert streamed.endswith(result.final_output), (streamed, result.final_output)
    return result.final_output


async def talk(url, model, way):
    client = AsyncOpenAI(base_url=url)
    agent = Agent(
        name="adder",
        instructions="Add with the tool.",
        model=model(model="tiny", openai_client=client),
        tools=[ADD],
    )
    session = SQLiteSession("session")
    questions = ["17 + 4, and 1 + 2 and 3 + 4 then?", "Sure?"]
    return [await answer(agent, session, question, way) for question in questions]


WAYS = [(model, way) for model in (OpenAIResponsesModel, OpenAIChatCompletionsModel) for way in ("run", "stream")]


async def main(urls):
    print(json.dumps([await talk(url, *way) for url, way in zip(urls, WAYS, strict=True)]))


asyncio.run(main(sys.argv[1:]))
