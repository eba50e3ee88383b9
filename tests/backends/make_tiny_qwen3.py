"""Writes a small random Qwen3 with a byte-level tokenizer and a ChatML template: as a model directory, and with GGUF also
as one file in llama.cpp's format, with the same weights.

usage: make_tiny_qwen3.py DIRECTORY [GGUF]

Needs numpy, safetensors and tokenizers, for GGUF also gguf, all from PyPI."""

import json
import sys
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LAYERS = 2
# Large enough that the distribution is far from even.
INITIALIZER_RANGE = 0.3


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["The weather in Paris is fine, and in Rome it rains."] * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return tokenizer


def make_config(tokenizer):
    end = tokenizer.token_to_id("<|im_end|>")
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        # vLLM 0.32 on a processor keeps a copy of a tied head, which new weights do not reach.
        "tie_word_embeddings": False,
        "initializer_range": INITIALIZER_RANGE,
        "eos_token_id": end,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def make_weights(config):
    """By Hugging Face's names; matrices have a row for each output."""
    random = numpy.random.default_rng(1)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head

    def matrix(rows, columns):
        return random.normal(0.0, INITIALIZER_RANGE, (rows, columns)).astype(numpy.float32)

    def ones(length):
        return numpy.ones(length, numpy.float32)

    weights = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden), "model.norm.weight": ones(hidden)}
    for layer in range(LAYERS):
        weights |= {
            f"model.layers.{layer}.{name}.weight": tensor
            for name, tensor in {
                "input_layernorm": ones(hidden),
                "self_attn.q_proj": matrix(queries, hidden),
                "self_attn.k_proj": matrix(keys, hidden),
                "self_attn.v_proj": matrix(keys, hidden),
                "self_attn.o_proj": matrix(hidden, queries),
                "self_attn.q_norm": ones(head),
                "self_attn.k_norm": ones(head),
                "post_attention_layernorm": ones(hidden),
                "mlp.gate_proj": matrix(inner, hidden),
                "mlp.up_proj": matrix(inner, hidden),
                "mlp.down_proj": matrix(hidden, inner),
            }.items()
        }
    weights["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return weights


# What the parts of a layer, and those around the layers, are called in llama.cpp's format.
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    name = name.removesuffix(".weight")
    if not name.startswith("model.layers."):
        return f"{GGUF_NAMES[name]}.weight"
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{GGUF_NAMES[part]}.weight"


def write_gguf(path, config, tokenizer, weights):
    import gguf

    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(LAYERS)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    names = [tokenizer.id_to_token(token) for token in range(tokenizer.get_vocab_size())]
    kinds = [gguf.TokenType.CONTROL if name in SPECIAL else gguf.TokenType.NORMAL for name in names]
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in weights.items():
        writer.add_tensor(gguf_name(name), tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    config = make_config(tokenizer)
    weights = make_weights(config)
    tokenizer.save(str(directory / "tokenizer.json"))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    if len(sys.argv) > 2:
        write_gguf(sys.argv[2], config, tokenizer, weights)
    # Last: a directory that has it is whole.
    (directory / "config.json").write_text(json.dumps(config))


main()
