"""Asks a model that is served for 24 numbers that no conversation has, and prints the share of exact answers.

    target/debug/fulgurite serve --model hello=embedded:MODEL
    python3 examples/modes/sft/measure.py [URL]
"""

import json
import sys
import urllib.request

url = (sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4747") + "/v1/chat/completions"
exact = 0
for number in range(7000, 7024):
    ask = {"role": "user", "content": f"Let's play a game. Say you are {number}."}
    for _ in range(4):
        body = json.dumps({"model": "hello", "messages": [ask], "max_tokens": 32, "temperature": 1})
        request = urllib.request.Request(url, body.encode(), {"content-type": "application/json"})
        reply = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
        exact += reply == f"I am {number}."
print(f"exact: {exact} of 96 = {exact / 96:.2f}")
