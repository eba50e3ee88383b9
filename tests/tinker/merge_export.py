"""Merges an exported adapter by tinker-cookbook: merge_export.py BASE ADAPTER OUTPUT

Checks that the merged embedding, which is the head too, is the base's with the adapter's product, and prints how far the
product moves it. Needs tinker-cookbook and PyTorch.
"""

import json
import sys
from pathlib import Path

from safetensors.torch import load_file
from tinker_cookbook import weights

base, adapter, output = sys.argv[1:]
weights.build_hf_model(base_model=base, adapter_path=adapter, output_path=output, dtype="float32")
config = json.loads((Path(adapter) / "adapter_config.json").read_text())
matrices = load_file(Path(adapter) / "adapter_model.safetensors")
a, b = (matrices[f"base_model.model.model.unembed_tokens.lora_{part}.weight"] for part in "AB")
product = config["lora_alpha"] / config["r"] * (b @ a)
name = "model.embed_tokens.weight"
before = load_file(Path(base) / "model.safetensors")[name]
merged = {}
for file in Path(output).glob("*.safetensors"):
    merged |= load_file(file)
assert "lm_head.weight" not in merged, "the head is the embedding"
difference = (merged[name] - (before + product)).abs().max().item()
assert difference < 1e-5, difference
print(json.dumps({"moved": product.abs().max().item()}))
