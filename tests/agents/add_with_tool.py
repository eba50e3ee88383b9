"""Adds with the tool `add` that a prompt declares, as often as it is asked to, and says what came out."""

from calls import call

THOUGHT = "<think>\nI add.\n</think>\n\n"


def answer(text):
    """What is said to a prompt, and whether it breaks off."""
    if "<tool_response>" in text:
        return THOUGHT + "Yes.", False
    return THOUGHT + call("add", a=17, b=4), False
