"""A ReAct program of DSPy that adds with a tool. usage: dspy_program.py BASE_URL...

Its calls and their results are fields of its own in the text."""

import sys

import dspy


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


for url in sys.argv[1:]:
    with dspy.context(lm=dspy.LM("openai/tiny", api_base=url, api_key="none", cache=False)):
        answer = dspy.ReAct("question -> answer", tools=[add])(question="17 + 4?").answer
    assert answer == "21", answer
