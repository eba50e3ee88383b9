"""Compares the embedded engine with llama.cpp on a GGUF file; `tests/long/gguf` says where both come from.

llama.cpp answers prompts at temperature 1 and tells the logprob of each token that it samples. The same tokens are then scored
by `fulgurite serve`, through its Tinker API. Where llama.cpp multiplies quantised weights it rounds activations to 8 bits,
which this engine does not; so the comparison is also made with the same weights in 32 bits, where both do the same.
"""

import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import xllamacpp

QUESTIONS = [
    "What is the capital of France? Answer in one sentence.",
    "Write a haiku about lightning and sand.",
    "Count from 1 to 20.",
    "def fibonacci(n):",
    "Übersetze ins Deutsche: The weather is nice today.",
    "Give me three reasons to learn Rust.",
    "Let's play a game. Say you are 1017.",
    "Explain what a logarithm is to a child.",
]
ANSWER_TOKENS = 48
# How far a logprob may be off where both compute in 32 bits, and where llama.cpp rounds activations to 8.
GREATEST_EXACT, GREATEST_QUANTISED = 2e-3, 1.0

TEXTS = [
    "Hello, world!  Two spaces, three   and a trailing one ",
    "12345 3.14159 1,000,000 0x7f ١٢٣ ½ ² Ⅷ",
    "def f(x):\n\treturn x**2  # tabs\r\n\r\n    if not x:\n        pass\n",
    "naïve café — “quotes” … ﬁ Ａ e\u0301 \u00e9",
    "日本語のテキスト 中文 한국어 العربية עברית ไทย हिन्दी",
    "😀👩\u200d👩\u200d👧 🏳️\u200d🌈 \u00a0\u2003\u3000|",
    "I'm you're THEY'LL we've he'd it'S don't 'tis",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "a\u0000b\u0007c\u200bd\ufeffe",
    "",
    " ",
    "\n\n\n",
]


def random_texts(count):
    """Mixtures of letters, digits, spaces, marks and characters of many scripts; always the same."""
    chance = random.Random(20)
    pieces = ["a", "The", "x1", "7", "42", " ", "  ", "\n", "\t", ".", "...", "'s", "’", "é", "ß", "Ж", "日", "😀", "_", "=>", "٣", "²", "\u00a0"]
    return ["".join(chance.choices(pieces, k=chance.randint(1, 30))) for _ in range(count)]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


class LlamaCpp:
    """A server in this process; keys, values and attention of 32 bits."""

    def __init__(self, file):
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.n_ctx = 1024
        parameters.n_parallel = 1
        # Of several threads each waits for the others by spinning, for minutes where processors are shared.
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.verbosity = 0
        self.server = xllamacpp.Server(parameters)
        self.url = self.server.listening_address

    def tokens(self, text, special=True):
        body = {"content": text, "add_special": False, "parse_special": special}
        return post(f"{self.url}/tokenize", body)["tokens"]

    def answer(self, prompt, seed):
        """Tokens with their logprobs."""
        body = {
            "prompt": prompt, "n_predict": ANSWER_TOKENS, "seed": seed, "temperature": 1.0, "top_k": 0, "top_p": 1.0,
            "min_p": 0.0, "n_probs": 1, "post_sampling_probs": False, "return_tokens": True, "cache_prompt": False,
        }
        answer = post(f"{self.url}/completion", body)
        pairs = [(token["id"], token["logprob"]) for token in answer["completion_probabilities"]]
        # Of a character in several tokens it tells the last alone; what comes after such a hole has another beginning.
        whole = [token == sampled for (token, _), sampled in zip(pairs, answer["tokens"])]
        return pairs[: whole.index(False)] if False in whole else pairs


class Fulgurite:
    """`fulgurite serve` of one model."""

    def __init__(self, command, model, home):
        ready = home / "ready.json"
        ready.unlink(missing_ok=True)
        store = home / "store.db"
        arguments = ["serve", "--listen", "127.0.0.1:0", "--ready-file", ready, "--store", f"sqlite://{store}"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}
        self.process = subprocess.Popen(
            [command, *arguments, "--model", f"smol=embedded:{model}"],
            env=environment,
            cwd=home,  # where the server keeps what its Tinker API is asked to keep
            stdout=subprocess.DEVNULL,
        )
        while not ready.exists():
            if self.process.poll() is not None:
                sys.exit(f"fulgurite serve ended with {self.process.returncode}")
            time.sleep(0.1)
        self.url = json.loads(ready.read_text())["url"]
        session = self.post("create_session", {})["session_id"]
        opened = {"session_id": session, "sampling_session_seq_id": 0, "base_model": "smol"}
        self.sampler = self.post("create_sampling_session", opened)["sampling_session_id"]
        self.place = 0

    def post(self, route, body):
        return post(f"{self.url}/api/v1/{route}", body)

    def logprobs(self, tokens):
        """Of all tokens but the first, given those before."""
        body = {
            "sampling_session_id": self.sampler, "seq_id": self.place, "num_samples": 1, "prompt_logprobs": True,
            "sampling_params": {"max_tokens": 1, "seed": 1},
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
        }
        self.place += 1
        submitted = self.post("asample", body)
        while True:
            try:
                answer = self.post("retrieve_future", {"request_id": submitted["request_id"]})
            except urllib.error.HTTPError as error:
                # It is not there yet.
                if error.code != 408:
                    raise
                continue
            if "prompt_logprobs" in answer:
                return answer["prompt_logprobs"][1:]

    def chat(self, question):
        body = {"model": "smol", "temperature": 0, "messages": [{"role": "user", "content": question}]}
        return post(f"{self.url}/v1/chat/completions", body)["choices"][0]["message"]["content"]

    def end(self):
        self.process.terminate()
        self.process.wait()


def in_32_bits(source, target):
    """The same file with every tensor dequantised."""
    if target.exists():
        return
    reader = gguf.GGUFReader(source)
    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(part, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(target)


def converted(command, source, home, kind):
    directory = home / f"{source.stem}-{kind}"
    if not directory.exists():
        subprocess.run([command, "model", "convert", source, directory, "--dtype", kind], check=True)
    return directory


def answers(llama_cpp):
    """Prompts, each with the tokens of an answer and their logprobs."""
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    for seed, question in enumerate(QUESTIONS):
        text = f"{system}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        prompt = llama_cpp.tokens(text)
        yield prompt, llama_cpp.answer(prompt, seed)


def compared(name, answered, fulgurite):
    """Prints how far apart the logprobs are, and gives the greatest distance."""
    distances = []
    for prompt, answer in answered:
        found = fulgurite.logprobs(prompt + [token for token, _ in answer])[len(prompt) - 1 :]
        distances += [abs(logprob - ours) for (_, logprob), ours in zip(answer, found, strict=True)]
    greatest, mean = max(distances), sum(distances) / len(distances)
    print(f"{name:58} {len(distances):6} tokens   greatest {greatest:.2e}   mean {mean:.2e}", flush=True)
    return greatest


def tokenizers_differ(llama_cpp, directory):
    """Texts of which llama.cpp makes other tokens."""
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    texts = TEXTS + random_texts(1000)
    differing = []
    for text in texts:
        ours, theirs = tokenizer.encode(text, add_special_tokens=False).ids, llama_cpp.tokens(text)
        if ours != theirs:
            differing.append((text, ours, theirs))
    print(f"tokenizers: {len(texts)} texts, {len(differing)} of which llama.cpp makes other tokens", flush=True)
    for text, ours, theirs in differing[:10]:
        print(f"  {text!r}: {ours} here, {theirs} there")
    return bool(differing)


def main():
    command, source, home = (Path(argument).resolve() for argument in sys.argv[1:])
    single = home / "SmolLM2-135M-Instruct.F32.gguf"
    in_32_bits(source, single)
    failed = False

    llama_cpp = LlamaCpp(source)
    failed |= tokenizers_differ(llama_cpp, converted(command, source, home, "bf16"))
    answered = list(answers(llama_cpp))
    del llama_cpp
    fulgurite = Fulgurite(command, source, home)
    failed |= compared("llama.cpp with Q4_1, here bfloat16 made of it", answered, fulgurite) > GREATEST_QUANTISED
    answer = fulgurite.chat(QUESTIONS[0])
    print(f"{QUESTIONS[0]} {answer}")
    failed |= answer != "The capital of France is Paris."
    fulgurite.end()
    fulgurite = Fulgurite(command, converted(command, source, home, "f32"), home)
    failed |= compared("llama.cpp with Q4_1, here 32 bits made of it", answered, fulgurite) > GREATEST_QUANTISED

    llama_cpp = LlamaCpp(single)
    answered = list(answers(llama_cpp))
    del llama_cpp
    failed |= compared("llama.cpp with those 32 bits, here the same", answered, fulgurite) > GREATEST_EXACT
    fulgurite.end()
    sys.exit(failed)


if __name__ == "__main__":
    main()
