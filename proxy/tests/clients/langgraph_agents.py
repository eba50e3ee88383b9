"""A tool-calling agent on LangGraph.

usage: langgraph_agents.py BASE_URL...

Asks two questions of one thread in each way, of one server each: through Chat Completions and Responses, run and
streamed. Prints the answers of each way as a JSON list.
"""

import json
import sys
import warnings

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

THREAD = {"configurable": {"thread_id": "thread"}}


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def answer(agent, question, way):
    request = {"messages": [("user", question)]}
    if way == "run":
        return agent.invoke(request, THREAD)["messages"][-1].text
    streamed = "".join(
        chunk.text
        for chunk, _ in agent.stream(request, THREAD, stream_mode="messages")
        if chunk.type == "AIMessageChunk"
    )
    final = agent.get_state(THREAD).values["messages"][-1].text
    assert streamed.endswith(final), (streamed, final)
    return final


def talk(url, responses, way):
    model = ChatOpenAI(model="tiny", base_url=url, use_responses_api=responses)
    agent = create_react_agent(model, [add], prompt="Add with the tool.", checkpointer=InMemorySaver())
    questions = ["17 + 4, and 1 + 2 and 3 + 4 then?", "Sure?"]
    return [answer(agent, question, way) for question in questions]


WAYS = [(responses, way) for responses in (False, True) for way in ("run", "stream")]

# This agent has moved to a package of its own, langchain.
warnings.filterwarnings("ignore", message="create_react_agent has been moved")
print(json.dumps([talk(url, *way) for url, way in zip(sys.argv[1:], WAYS, strict=True)]))
