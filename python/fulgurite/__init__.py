"""Fulgurite trains any agent by reinforcement learning, unchanged: point its base URL at it.

- The command `fulgurite` comes with this package; `python -m fulgurite` is the same.
- `fulgurite.agent`: a warm agent, one process that plays many rollouts at once. It needs nothing else.
- `fulgurite.client`: a typed client of a Fulgurite server. It needs the extra: `pip install 'fulgurite[client]'`.
- `fulgurite.learner`: what trains a model in PyTorch, started by the command: `pip install 'fulgurite[torch]'`.
"""
