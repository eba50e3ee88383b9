"""An agent of Agno that adds with a tool. usage: agno_agent.py BASE_URL...

Asks two questions of one session, whole of the first server and streamed of the second."""

import sys

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai.like import OpenAILike


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


for url, streams in zip(sys.argv[1:], (False, True), strict=True):
    model = OpenAILike(id="tiny", base_url=url, api_key="none")
    agent = Agent(model=model, tools=[add], db=InMemoryDb(), add_history_to_context=True, telemetry=False)
    for question in ("17 + 4?", "Sure?"):
        if streams:
            answer = "".join(event.content or "" for event in agent.run(question, session_id="one", stream=True))
        else:
            answer = agent.run(question, session_id="one").content
        assert answer.strip().endswith("Yes."), answer
