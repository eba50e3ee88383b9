"""An agent of Strands that adds with a tool. usage: strands_agent.py BASE_URL...

Asks two questions of one conversation, by Chat Completions of the first server and by Messages of the second. Both stream."""

import sys

from strands import Agent, tool
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


chat, messages = sys.argv[1:]
models = [
    OpenAIModel(client_args={"base_url": chat, "api_key": "none"}, model_id="tiny"),
    # Anthropic's library writes the version itself.
    AnthropicModel(client_args={"base_url": messages.removesuffix("/v1"), "api_key": "none"}, model_id="tiny", max_tokens=999),
]
for model in models:
    agent = Agent(model=model, tools=[add], system_prompt="Add with the tool.", callback_handler=None)
    for question in ("17 + 4?", "Sure?"):
        assert str(agent(question)).strip() == "Yes.", agent.messages
