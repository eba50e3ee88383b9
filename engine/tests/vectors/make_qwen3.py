"""Writes the models of this folder: small random Qwen3 decoders as transformers saves them, and the log-probabilities
that transformers computes for them.

    pip install torch transformers && python make_qwen3.py
"""

import json
from pathlib import Path

import torch
import transformers

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 47]


def make(name: str, tied: bool, dtype: torch.dtype, theta: float) -> None:
    torch.manual_seed(20)
    config = transformers.Qwen3Config(
        vocab_size=48,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        initializer_range=0.3,
    )
    model = transformers.Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if key.endswith("norm.weight"):
                value.add_(0.2 * torch.randn_like(value))
    directory = Path(__file__).parent / name
    model.to(dtype).save_pretrained(directory)
    # Read back rather than converted back: conversion would have rounded the rotary frequencies too.
    model = transformers.Qwen3ForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0]
    logprobs = logits.double().log_softmax(-1)
    rows = [[round(value, 8) for value in row] for row in logprobs.tolist()]
    fixture = {"transformers": transformers.__version__, "tokens": TOKENS, "logprobs": rows}
    (directory / "logprobs.json").write_text(json.dumps(fixture) + "\n")


make("qwen3-tied", True, torch.float32, 10_000.0)
make("qwen3-untied-bf16", False, torch.bfloat16, 1_000_000.0)
