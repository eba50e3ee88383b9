"""An agent of Google's Agent Development Kit, whose tool is a shell. usage: adk_agent.py MODEL TASK"""

import asyncio
import subprocess
import sys

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

MODEL, TASK = sys.argv[1:]


def execute_command(command: str) -> str:
    """Runs a command in a shell, and returns what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


async def main():
    # Unless it is told to, it does not ask again.
    model = Gemini(model=MODEL, retry_options=types.HttpRetryOptions(attempts=3, initial_delay=0.1))
    agent = LlmAgent(name="writer", model=model, instruction="Use the shell.", tools=[execute_command])
    for event in await InMemoryRunner(agent=agent).run_debug(TASK, quiet=True):
        print(event.author, event.content)


asyncio.run(main())
