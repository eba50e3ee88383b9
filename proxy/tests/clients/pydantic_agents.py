"""A tool-calling agent on PydanticAI.

usage: pydantic_agents.py BASE_URL...

Asks two questions in one conversation in each way, of one server each: through Chat Completions, Responses and
Messages, run and streamed. Prints the answers of each way as a JSON list.
"""

import asyncio
import json
import sys

from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def chat_completions(url):
    return OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=url))


def responses(url):
    return OpenAIResponsesModel("tiny", provider=OpenAIProvider(base_url=url))


def messages(url):
    return AnthropicModel("tiny", provider=AnthropicProvider(base_url=url.removesuffix("/v1")))


async def answer(agent, question, history, way):
    streamed = []

    async def listen(_, events):
        async for event in events:
            match event:
                case PartStartEvent(part=TextPart(content=text)):
                    streamed.append(text)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    streamed.append(text)

    listener = listen if way == "stream" else None
    result = await agent.run(question, message_history=history, event_stream_handler=listener)
    assert way == "run" or "".join(streamed).endswith(result.output), (streamed, result.output)
    return result


async def talk(url, model, way):
    agent = Agent(model(url), instructions="Add with the tool.", tools=[add])
    first = await answer(agent, "17 + 4, and 1 + 2 and 3 + 4 then?", None, way)
    then = await answer(agent, "Sure?", first.all_messages(), way)
    return [first.output, then.output]


WAYS = [(model, way) for model in (chat_completions, responses, messages) for way in ("run", "stream")]


async def main(urls):
    print(json.dumps([await talk(url, *way) for url, way in zip(urls, WAYS, strict=True)]))


asyncio.run(main(sys.argv[1:]))
