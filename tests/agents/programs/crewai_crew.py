"""A crew of CrewAI whose agent adds with a tool. usage: crewai_crew.py BASE_URL...

Whole of the first server and streamed of the second."""

import os
import sys

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool("add")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


for url, streams in zip(sys.argv[1:], (False, True), strict=True):
    model = LLM(model="openai/tiny", base_url=url, api_key="none", stream=streams)
    agent = Agent(role="Adder", goal="Add.", backstory="It adds.", llm=model, tools=[add])
    task = Task(description="17 + 4?", expected_output="The sum.", agent=agent)
    answer = str(Crew(agents=[agent], tasks=[task]).kickoff())
    assert answer == "Yes.", answer
