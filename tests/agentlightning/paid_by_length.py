"""The agent of examples/hello/agent_lightning.py, paid by the length of the reply: rewards then differ without a model
that has learnt anything. Same arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "hello"))

import agent_lightning

agent_lightning.grade = lambda reply, ended, number: {"contains": len(reply) % 5 / 4, "strict": 0.25, "exact": 0.5}

if __name__ == "__main__":
    agent_lightning.main()
