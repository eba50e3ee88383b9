"""Plays one episode of an environment of OpenEnv's. usage: openenv_agent.py URL SEED

    pip install openenv
    openenv init echo_env && cd echo_env && uvicorn server.app:app --port 8001
    fulgurite serve --model coder=vllm:http://127.0.0.1:8000,path=models/coder
    fulgurite enqueue 0 1 2 --samples 8                          # seeds of episodes
    fulgurite run -- python3 examples/environments/openenv_agent.py http://127.0.0.1:8001 '{task}'

What an answer means to the environment is the environment's to say: this one is the echo that `openenv init` makes, whose
actions are a message.
"""

import json
import os
import sys
import urllib.request

from openenv.core.generic_client import GenericEnvClient

STEPS = 3


def answer(messages):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    body = json.dumps({"model": "coder", "messages": messages}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]


messages, earned = [{"role": "user", "content": "Say something; its echo follows."}], 0.0
with GenericEnvClient(base_url=sys.argv[1]).sync() as environment:
    environment.reset(seed=int(sys.argv[2]))
    for _ in range(STEPS):
        reply = answer(messages)
        result = environment.step({"message": reply["content"]})
        earned += result.reward or 0.0
        messages += [reply, {"role": "user", "content": json.dumps(result.observation)}]
        if result.done:
            break
print(json.dumps({"reward": earned}))
