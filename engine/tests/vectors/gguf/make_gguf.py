"""Writes what the tests of GGUF files read: random blocks of every type beside the numbers that the `gguf` package makes of
them (blocks.json), and three models of the folder above as that package writes them.

    pip install gguf==0.19.0 numpy safetensors && python make_gguf.py
"""

import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file

HERE = Path(__file__).parent
BLOCKS = 3
# Bytes of a block in which scales of 16 bits stand.
HALVES = {
    Type.F16: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
# A subnormal, a negative, the greatest.
SCALES = np.array([2.0**-24 * 37, -0.013671875, 65504.0], dtype=np.float16)


def blocks() -> dict:
    random = np.random.default_rng(20)
    made = {}
    for kind in [*HALVES, Type.BF16]:
        _, size = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        if kind == Type.BF16:
            data = np.array([0.15625, -3e38, 1e-40], dtype=np.float32).view(np.uint8).reshape(3, 4)[:, 2:]
        for place in HALVES.get(kind, []):
            scales = np.roll(SCALES, place // 2)
            data[:, place : place + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
        if kind == Type.F16:
            numbers = data.copy().view(np.float16).astype(np.float32)
        else:
            numbers = gguf.dequantize(np.ascontiguousarray(data), kind)
        made[kind.name] = {"blocks": data.tobytes().hex(), "numbers": numbers.astype("<f4").tobytes().hex()}
    return made


LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def name_of(tensor: str) -> str:
    module, kind = tensor.rsplit(".", 1)
    if module in OUTER:
        return f"{OUTER[module]}.{kind}"
    layer, part = module.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def model(source: str, architecture: str, pre: str) -> None:
    config = json.loads((HERE.parent / source / "config.json").read_text())
    writer = gguf.GGUFWriter(HERE / f"{source}.gguf", architecture)
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])

    tokens = ["<|begin|>", "<|end|>", *"abcdefghijklmnopqrstuvwxyz0123456789.,'!", "Ġ", "ab", "Ġa", "ĠĠ", "<tool>"]
    kinds = [3, 3] + [1] * (len(tokens) - 3) + [4]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b", "Ġ a", "Ġ Ġ"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{% for message in messages %}<|begin|>{{ message['content'] }}<|end|>{% endfor %}")

    for name, values in load_file(HERE.parent / source / "model.safetensors").items():
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            n = heads if "q_proj" in name else key_heads
            rows, columns = values.shape
            values = values.reshape(n, 2, rows // n // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        writer.add_tensor(name_of(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


(HERE / "blocks.json").write_text(json.dumps(blocks(), indent=1) + "\n")
for source, architecture, pre in [("llama", "llama", "llama-bpe"), ("qwen2-yarn", "qwen2", "qwen2"), ("qwen3-tied", "qwen3", "smollm")]:
    model(source, architecture, pre)
