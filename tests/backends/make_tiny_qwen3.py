"""Writes a small random Qwen3 with a byte-level tokenizer and a ChatML template. usage: make_tiny_qwen3.py DIRECTORY"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
tokenizer.train_from_iterator(["The weather in Paris is fine, and in Rome it rains."] * 3, trainer)
tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
tokenizer.save(str(directory / "tokenizer.json"))
(directory / "tokenizer_config.json").write_text(
    json.dumps(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "chat_template": TEMPLATE,
        }
    )
)

torch.manual_seed(1)
config = Qwen3Config(
    vocab_size=tokenizer.get_vocab_size(),
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    max_position_embeddings=512,
    # vLLM 0.32 on a processor keeps a copy of a tied head, which new weights do not reach.
    tie_word_embeddings=False,
    # Large enough that the distribution is far from even.
    initializer_range=0.3,
    eos_token_id=tokenizer.token_to_id("<|im_end|>"),
    bos_token_id=None,
    pad_token_id=None,
    dtype="float32",
)
Qwen3ForCausalLM(config).save_pretrained(directory)
