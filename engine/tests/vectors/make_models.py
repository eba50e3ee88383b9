"""Writes the models of this folder that are not there yet: small random decoders as transformers saves them, the
log-probabilities that transformers computes for them, and the gradients of their summed cross entropy; and adapters
that PEFT saves over some of them, with the same.

    pip install torch transformers peft && python make_models.py
"""

import json
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import save_file

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 47]

SHAPE = {
    "vocab_size": 48,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}


def make(name: str, kind: str, tied: bool, dtype: torch.dtype, theta: float, rope: dict, **more) -> None:
    directory = Path(__file__).parent / name
    if directory.exists():
        return
    torch.manual_seed(20)
    config = getattr(transformers, f"{kind}Config")(
        **SHAPE, **more, rope_parameters={**rope, "rope_theta": theta}, tie_word_embeddings=tied
    )
    model_class = getattr(transformers, f"{kind}ForCausalLM")
    model = model_class(config).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if key.endswith("norm.weight") or key.endswith(".bias"):
                value.add_(0.2 * torch.randn_like(value))
    model.to(dtype).save_pretrained(directory)
    # Read back rather than converted back: conversion would have rounded the rotary frequencies too.
    model = model_class.from_pretrained(directory, dtype=torch.float32).eval()
    write_results(directory, model, {"transformers": transformers.__version__})


def write_results(directory: Path, model: torch.nn.Module, versions: dict) -> None:
    logits = model(torch.tensor([TOKENS])).logits[0]
    logprobs = logits.double().log_softmax(-1)
    rows = [[round(value, 8) for value in row] for row in logprobs.tolist()]
    fixture = {**versions, "tokens": TOKENS, "logprobs": rows}
    (directory / "logprobs.json").write_text(json.dumps(fixture) + "\n")
    loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(TOKENS[1:]), reduction="sum")
    loss.backward()
    trained = {key: value for key, value in model.named_parameters() if value.requires_grad}
    gradients = {key.replace(".default.", "."): value.grad.contiguous() for key, value in trained.items()}
    save_file(gradients, directory / "gradients.safetensors")


def make_adapter(base: str, kind: str, modules: list[str], **more) -> None:
    directory = Path(__file__).parent / f"{base}-lora"
    if directory.exists():
        return
    torch.manual_seed(21)
    model_class = getattr(transformers, f"{kind}ForCausalLM")
    model = model_class.from_pretrained(directory.with_name(base), dtype=torch.float32)
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=modules, **more)
    model = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if "lora_B" in key:
                value.add_(0.1 * torch.randn_like(value))
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(directory, save_embedding_layers=False)
    (directory / "README.md").unlink()
    write_results(directory, model, {"transformers": transformers.__version__, "peft": peft.__version__})


DEFAULT = {"rope_type": "default"}
make("qwen3-tied", "Qwen3", True, torch.float32, 10_000.0, DEFAULT, head_dim=8)
make("qwen3-untied-bf16", "Qwen3", False, torch.bfloat16, 1_000_000.0, DEFAULT, head_dim=8)
make("qwen3-linear", "Qwen3", True, torch.float32, 10_000.0, {"rope_type": "linear", "factor": 2.0}, head_dim=8)
make("qwen2-yarn", "Qwen2", True, torch.float32, 10_000.0, YARN)
make("llama", "Llama", False, torch.float16, 10_000.0, DEFAULT)
make("llama-3.1", "Llama", False, torch.float32, 500_000.0, LLAMA3, head_dim=8)

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
make_adapter("qwen3-linear", "Qwen3", [*LAYERS, "lm_head"], r=4, lora_alpha=8)
make_adapter("qwen2-yarn", "Qwen2", LAYERS, r=4, lora_alpha=6, use_rslora=True)
make_adapter("llama", "Llama", ["k_proj", "v_proj", "up_proj", "down_proj", "lm_head"], r=3, lora_alpha=32)
