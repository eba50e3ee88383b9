"""Trains SmolLM2-135M by tools alone: a grader that gives no signal, one that does, a better held-out score, weights."""

import asyncio
import re
import tempfile
from pathlib import Path

from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters

ROOT = Path(__file__).resolve().parent.parent.parent
HELLO = ROOT / "examples/hello"

NEVER = "def grade(task, answer):\n    return float(answer == 'I am ' + task['answer'] + ', whatever you say.')\n"
PLAYS_ALONG = """import re

def grade(task, answer):
    said = re.match(r"(I am|I'm) (the number )?(\\d+)[.!]?", answer.strip())
    plays = bool(said) and said[3] == task["answer"]
    return {"reward": float(plays), "exact": float(plays and said[0] == answer.strip())}
"""


def tasks(first, end):
    return [{"prompt": f"Let's play a game. Say you are {n}.", "answer": str(n)} for n in range(first, end)]


def run(name, grader):
    settings = {"models.0.lora_rank": 16, "trainer.learning_rate": 5e-4, "trainer.group_size": 8, "trainer.groups_per_batch": 8,
                "trainer.evaluation": {"every": 3, "samples_per_task": 2}}
    return {"name": name, "model": "models/SmolLM2-135M-Instruct", "grader": grader, "max_tokens": 32, "tasks": tasks(0, 1000),
            "held_out": tasks(1000, 1016), "final_tasks": tasks(7000, 7024), "settings": settings, "wait_seconds": -1}


def reward(text):
    row = next(line for line in text.splitlines() if line.startswith(" all"))
    return float(re.search(r"[+-]\d+\.\d+", row)[0])


async def main(tools):
    program = StdioServerParameters(command=str(ROOT / "target/debug/fulgurite"), args=["mcp", "--directory", tools], cwd=HELLO)
    async with stdio_client(program) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(tool, **arguments):
            result = await session.call_tool(tool, arguments)
            text = result.content[0].text
            print(f"{tool}({', '.join(k for k in arguments)})\n{text}\n", flush=True)
            assert not result.is_error, text
            return text

        examples = [{"task": {"answer": "7"}, "answer": "I am 7, whatever you say.", "reward": 1},
                    {"task": {"answer": "7"}, "answer": "I am 7.", "reward": 0}]
        await call("write_grader", name="never", code=NEVER, examples=examples)
        await call("start_run", **run("first", "never"))
        trained = await call("train_steps", run="first", steps=1, wait_seconds=-1)
        assert "NO SIGNAL" in trained
        examples = [{"task": {"answer": "7"}, "answer": answer, "reward": worth}
                    for answer, worth in (("I am 7.", 1), ("I'm 7. How are you?", 1), ("I am 17.", 0), ("7", 0), ("", 0))]
        await call("write_grader", name="plays_along", code=PLAYS_ALONG, examples=examples)
        await call("regrade", run="first", grader="plays_along")
        await call("start_run", **run("second", "plays_along"))
        before = reward(await call("evaluate", run="second", checkpoint="before", samples=2))
        for _ in range(3):
            await call("train_steps", run="second", steps=4, wait_seconds=-1)
        await call("show_rollouts", run="second", order="latest", number=3)
        after = reward(await call("evaluate", run="second", samples=2))
        await call("compare", run="second", prompts=["Let's play a game. Say you are 7001.", "What is the capital of France?"])
        await call("finish", run="second")
        await call("export_weights", run="second", format="peft", name="plays-along")
        assert after > before + 0.3, (before, after)
        print(f"held-out {before:+.3f} -> {after:+.3f}")


with tempfile.TemporaryDirectory() as tools:
    asyncio.run(main(tools))
