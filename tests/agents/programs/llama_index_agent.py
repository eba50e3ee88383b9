"""A ReAct agent of llama-index that adds with a tool. usage: llama_index_agent.py BASE_URL...

Asks two questions of one memory of each server. The calls are in the text, and its answers stream."""

import asyncio
import sys

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai_like import OpenAILike


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def ask(url):
    model = OpenAILike(model="tiny", api_base=url, api_key="none", is_chat_model=True, context_window=32768)
    agent = ReActAgent(tools=[add], llm=model)
    memory = Memory.from_defaults()
    for question in ("17 + 4?", "Sure?"):
        answer = str(await agent.run(question, memory=memory))
        assert answer.strip() == "21", answer


async def main():
    for url in sys.argv[1:]:
        await ask(url)


asyncio.run(main())
