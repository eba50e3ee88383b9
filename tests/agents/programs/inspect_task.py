"""A task of inspect-ai whose solver adds with a tool. usage: inspect_task.py BASE_URL...

Each server is asked in a dialect of its own: Responses, Chat Completions, and Messages, which inspect-ai streams."""

import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool


@tool
def add():
    async def execute(a: int, b: int) -> str:
        """Adds.

        Args:
            a: The first.
            b: The second.
        """
        return str(a + b)

    return execute


for url, name in zip(sys.argv[1:], ("openai/tiny", "openai-api/local/tiny", "anthropic/tiny"), strict=True):
    # Anthropic's library writes the version itself.
    base = url.removesuffix("/v1") if name.startswith("anthropic/") else url
    model = get_model(name, base_url=base, api_key="none")
    task = Task(dataset=[Sample(input="17 + 4?", target="Yes")], solver=[use_tools(add()), generate()], scorer=includes())
    [log] = eval(task, model=model, display="none", log_dir="logs", max_retries=0)
    assert log.status == "success", log.error
    [score] = log.results.scores
    assert score.metrics["accuracy"].value == 1.0, log.samples[0].output
