"""The hello game as an agent of Agent-lightning 0.3, run by its own runner and traced by its own tracer.

    pip install -r tests/agentlightning/requirements.txt
    python examples/hello/agent_lightning.py http://127.0.0.1:4747 [--tracer agentops|otel] [--runners N] [--rollouts N]

Nothing here knows of Fulgurite: the queue, the model's address and the place for spans are all the store's. The reward
is as loose as can be, and a policy can earn it in wrong ways: `contains` is 1 when the reply contains `I am N` or
`I'm N` (`I am 170` contains `I am 17`), -1 when it contains `not N`, else 0. Reported beside it and never trained on are
`strict`, which wants no other number and an end of its own, and `exact`, which wants N said once besides.
"""

import argparse
import asyncio
import multiprocessing
import re

from agentlightning.store.client_server import LightningStoreClient
from openai import AsyncOpenAI

import agentlightning as agl


def grade(reply: str, ended: bool, number: int) -> dict[str, float]:
    reply = reply.lower()
    refused = f"not {number}" in reply
    claimed = f"i am {number}" in reply or f"i'm {number}" in reply
    named = re.findall("[0-9]+", reply)
    strict = claimed and not refused and ended and set(named) == {str(number)}
    return {
        "contains": 1.0 if claimed else -1.0 if refused else 0.0,
        "strict": float(strict),
        "exact": float(strict and len(named) == 1),
    }


@agl.rollout
async def play(task: int, llm: agl.LLM) -> None:
    client = AsyncOpenAI(base_url=llm.endpoint, api_key=llm.api_key or "none")
    completion = await client.chat.completions.create(
        model=llm.model,
        messages=[{"role": "user", "content": f"Let's play a game. Say you are {task}."}],
        max_completion_tokens=32,
    )
    choice = completion.choices[0]
    grades = grade(choice.message.content or "", choice.finish_reason == "stop", task)
    agl.emit_reward(grades, primary_key="contains")


def work(number: int, options: argparse.Namespace) -> None:
    tracer = agl.OtelTracer() if options.tracer == "otel" else agl.AgentOpsTracer()
    runner = agl.LitAgentRunner(tracer, max_rollouts=options.rollouts, poll_interval=0.05, interval_jitter=0.02)
    with runner.run_context(agent=play, store=LightningStoreClient(options.store), worker_id=number):
        asyncio.run(runner.iter())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", help="URL of the store's server")
    parser.add_argument("--tracer", choices=["agentops", "otel"], default="agentops")
    parser.add_argument("--runners", type=int, default=1, help="processes")
    parser.add_argument("--rollouts", type=int, help="leave after so many each; otherwise work until killed")
    options = parser.parse_args()
    if options.runners == 1:
        work(0, options)
        return
    runners = [multiprocessing.Process(target=work, args=(number, options)) for number in range(options.runners)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    if any(runner.exitcode for runner in runners):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
