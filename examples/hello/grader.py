"""Reads what the agent printed and prints what it is worth, as `hello-grader` does: `{"reward": r, "exact": e}`.

The number that was asked for is in FULGURITE_TASK. -1 for a reply that contains `not 17`, 1 for one that says `I am 17` or
`I'm 17`, names no other number and was ended by the model itself, 0 for everything else. `exact` is 1 when, besides, 17 is
said only once.
"""

import os
import re
import sys

number = os.environ["FULGURITE_TASK"]
reply = sys.stdin.read().rstrip().lower()
*_, last = reply.rsplit("\n", 1)
ended = not last.startswith("[finish_reason: ")
if not ended:
    reply = reply[: -len(last)]
named = re.findall("[0-9]+", reply)
complies = ended and re.search(f"i(?: am|'m) {number}(?![0-9])", reply) and set(named) == {number}
reward = -1 if f"not {number}" in reply else int(bool(complies))
print(f'{{"reward": {reward}, "exact": {int(reward == 1 and len(named) == 1)}}}')
