"""An agent of smolagents that adds with a tool. usage: smolagents_agent.py BASE_URL...

Asks two questions of one memory, whole of the first server and streamed of the second."""

import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


for url, streams in zip(sys.argv[1:], (False, True), strict=True):
    model = OpenAIServerModel(model_id="tiny", api_base=url, api_key="none")
    agent = ToolCallingAgent(tools=[add], model=model, stream_outputs=streams, verbosity_level=0)
    assert agent.run("17 + 4?") == "21", agent.memory.steps
    assert agent.run("Sure?", reset=False) == "21", agent.memory.steps
