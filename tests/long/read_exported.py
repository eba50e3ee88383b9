"""Has PEFT, transformers and llama.cpp read what `tests/long/export` has exported, and holds what they compute against the
embedded engine.
"""

import sys
from pathlib import Path

import against_llama_cpp as comparison
import gguf
import peft
import torch
import transformers

# How far a logprob may be off in 32 bits on both sides, and where one side has 16.
GREATEST_EXACT, GREATEST_HALF = 2e-3, 0.2
TEXT = "<|im_start|>user\nSay 3.<|im_end|>\n<|im_start|>assistant\nYou are 3 of eight.<|im_end|>\n"


def logprobs(model, tokens):
    """Of all tokens but the first, given those before, by a model in PyTorch."""
    with torch.no_grad():
        found = torch.log_softmax(model(torch.tensor([tokens])).logits[0].double(), -1)
    return [found[place, token].item() for place, token in enumerate(tokens[1:])]


def distance(name, ours, theirs, most):
    greatest = max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
    print(f"{name:58} {len(ours):6} tokens   greatest {greatest:.2e}", flush=True)
    return greatest > most


def in_pytorch(command, home):
    """The adapter beside its model, and the model with it, held against the engine's logprobs of the latter."""
    out = home / "out"
    tokenizer = transformers.AutoTokenizer.from_pretrained(out / "merged")
    tokens = tokenizer(TEXT, add_special_tokens=False).input_ids
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Say 3."}], add_generation_prompt=True, tokenize=False
    )
    assert chat.endswith("<|im_start|>assistant\n"), chat
    fulgurite = comparison.Fulgurite(command, out / "merged", home)
    ours = fulgurite.logprobs(tokens)
    fulgurite.end()
    merged = transformers.AutoModelForCausalLM.from_pretrained(out / "merged", dtype=torch.float32)
    failed = distance("transformers with the merged model", ours, logprobs(merged, tokens), GREATEST_EXACT)
    base = transformers.AutoModelForCausalLM.from_pretrained(home / "smol", dtype=torch.float32)
    before = logprobs(base, tokens)
    adapted = peft.PeftModel.from_pretrained(base, out / "peft")
    failed |= distance("PEFT with the adapter over its model", ours, logprobs(adapted, tokens), GREATEST_EXACT)
    moved = max(abs(one - other) for one, other in zip(ours, before, strict=True))
    print(f"{'the model without the adapter':58} {len(ours):6} tokens   greatest {moved:.2e}", flush=True)
    # Otherwise nothing was looked at.
    return failed or moved < 0.1


def in_llama_cpp(command, home, name, directory, most):
    """A GGUF file, held against the engine with the directory that it was made from."""
    file = home / "out" / f"{name}.gguf"
    template = gguf.GGUFReader(file).get_field("tokenizer.chat_template")
    print(f"{name}: a chat template of {len(template.contents())} characters")
    llama_cpp = comparison.LlamaCpp(file)
    failed = name.startswith("adapter") and comparison.tokenizers_differ(llama_cpp, directory)
    if name.startswith("adapter"):
        answered = list(comparison.answers(llama_cpp))
    else:
        # Of small models every token is as likely as any other, and control tokens are sampled as others are.
        answered = [(prompt, llama_cpp.answer(prompt, seed)) for seed, prompt in enumerate([[2, 3, 4], [5, 6, 7, 8]])]
    del llama_cpp
    fulgurite = comparison.Fulgurite(command, directory, home)
    failed |= comparison.compared(f"llama.cpp with {file.name}", answered, fulgurite) > most
    fulgurite.end()
    return failed


def main():
    command, home = (Path(argument).resolve() for argument in sys.argv[1:])
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}")
    failed = in_pytorch(command, home)
    out = home / "out"
    failed |= in_llama_cpp(command, home, "adapter-f32", out / "merged", GREATEST_EXACT)
    failed |= in_llama_cpp(command, home, "adapter-f16", out / "merged", GREATEST_HALF)
    for name in ["qwen2-yarn", "qwen3-tied"]:
        failed |= in_llama_cpp(command, home, name, out / name, GREATEST_EXACT)
    sys.exit(failed)


if __name__ == "__main__":
    main()
