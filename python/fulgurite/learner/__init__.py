"""A learner in PyTorch, which `fulgurite train` starts for models with `learner = "torch"`.

It needs the extra: `pip install 'fulgurite[torch]'`. `python -m fulgurite.learner` answers the calls of the trainer over the
socket that is its standard input; the protocol is described in docs/how/torch-learner.md.
"""
