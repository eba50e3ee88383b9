"""Has a sub-agent look something up, waits for it, and says what it was told."""

import re

from calls import call

THOUGHT = "<think>\nSomebody else is to find out.\n</think>\n\n"
AGENTS = "multi_agent_v1__"
TASK = "What is amber backwards?"


def answer(text):
    """What is said to a prompt, and whether it breaks off."""
    if "Have a sub-agent" not in text:
        return f"{THOUGHT}It is rebma.", False
    reports = re.findall(r"It is (\w+)\.", text)
    if reports:
        return f"{THOUGHT}It said {reports[-1]}.", False
    agent_ids = re.findall(r'"agent_id":"([0-9a-f-]+)"', text)
    if agent_ids:
        return THOUGHT + call(f"{AGENTS}wait_agent", targets=[agent_ids[-1]]), False
    return THOUGHT + call(f"{AGENTS}spawn_agent", message=TASK), False
