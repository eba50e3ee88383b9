"""What PyTorch makes of the same work: a lean Qwen3 decoder, without torch.compile.

Takes the model's dimensions as its argument, reads one request a line and answers each with a line.
"""

import json
import sys
import time

import torch
from torch.nn import functional

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
torch.manual_seed(1)
HIDDEN, INNER, LAYERS = spec["hidden_size"], spec["intermediate_size"], spec["num_hidden_layers"]
HEADS, KEY_HEADS, HEAD = spec["num_attention_heads"], spec["num_key_value_heads"], spec["head_dim"]
VOCABULARY, EPSILON = spec["vocab_size"], spec["rms_norm_eps"]
SPLIT = [HEADS * HEAD, KEY_HEADS * HEAD, KEY_HEADS * HEAD]
# Logits that are held at once when training.
MOST_LOGITS = 1 << 27


def matrix(outputs, inputs):
    return torch.nn.Parameter(torch.randn(outputs, inputs) * (0.4 / inputs**0.5))


def gain(width):
    return torch.nn.Parameter(torch.ones(width))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Parameter(torch.randn(VOCABULARY, HIDDEN) * 0.05)
        self.final_norm = gain(HIDDEN)
        layer = lambda: torch.nn.ParameterDict({
            "input_norm": gain(HIDDEN), "query_key_value": matrix(sum(SPLIT), HIDDEN),
            "query_norm": gain(HEAD), "key_norm": gain(HEAD), "output": matrix(HIDDEN, SPLIT[0]),
            "feed_forward_norm": gain(HIDDEN), "gate_up": matrix(2 * INNER, HIDDEN), "down": matrix(HIDDEN, INNER),
        })
        self.layers = torch.nn.ModuleList(layer() for _ in range(LAYERS))
        frequencies = 1.0 / (spec["rope_theta"] ** (torch.arange(0, HEAD, 2).float() / HEAD))
        angles = torch.outer(torch.arange(spec["max_position_embeddings"]).float(), frequencies).repeat(1, 2)
        self.cosines, self.sines = angles.cos(), angles.sin()

    def forward(self, tokens, cache=None, start=0):
        """Normed output of every token, [batch, length, hidden]. A cache holds keys and values of `start` tokens."""
        batch, length = tokens.shape
        cosines, sines = self.cosines[start : start + length], self.sines[start : start + length]

        def rotate(x):
            low, high = x.chunk(2, dim=-1)
            return x * cosines + torch.cat((-high, low), dim=-1) * sines

        stream = functional.embedding(tokens, self.embedding)
        for index, layer in enumerate(self.layers):
            normed = functional.rms_norm(stream, (HIDDEN,), layer["input_norm"], EPSILON)
            parts = functional.linear(normed, layer["query_key_value"]).split(SPLIT, dim=-1)
            query, key, value = (part.view(batch, length, -1, HEAD).transpose(1, 2) for part in parts)
            query = rotate(functional.rms_norm(query, (HEAD,), layer["query_norm"], EPSILON))
            key = rotate(functional.rms_norm(key, (HEAD,), layer["key_norm"], EPSILON))
            if cache is not None:
                keys, values = cache[index]
                keys[:, :, start : start + length] = key
                values[:, :, start : start + length] = value
                key, value = keys[:, :, : start + length], values[:, :, : start + length]
            group = HEADS // KEY_HEADS
            key, value = (part.repeat_interleave(group, dim=1) for part in (key, value))
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
            stream = stream + functional.linear(attended.transpose(1, 2).reshape(batch, length, -1), layer["output"])
            normed = functional.rms_norm(stream, (HIDDEN,), layer["feed_forward_norm"], EPSILON)
            gate, up = functional.linear(normed, layer["gate_up"]).chunk(2, dim=-1)
            stream = stream + functional.linear(functional.silu(gate) * up, layer["down"])
        return functional.rms_norm(stream, (HIDDEN,), self.final_norm, EPSILON)


@torch.inference_mode()
def sample(batch, prompt, new):
    """Samples at temperature 1, with keys and values in memory that is found once."""
    shape = (batch, KEY_HEADS, prompt + new, HEAD)
    cache = [(torch.empty(shape), torch.empty(shape)) for _ in range(LAYERS)]
    tokens, start = torch.randint(VOCABULARY, (batch, prompt)), 0
    for _ in range(new):
        output = model(tokens, cache, start)[:, -1]
        start += tokens.shape[1]
        logprobs = functional.linear(output, model.embedding).log_softmax(-1)
        tokens = torch.multinomial(logprobs.exp(), 1)
        logprobs.gather(1, tokens)
    return batch * new


def train(sequences, length, common=0):
    """One step over sequences that have their first `common` positions in common and train the others: gradients of the
    summed cross entropy, clipped, and AdamW."""
    prompt = torch.randint(VOCABULARY, (1, common)).expand(sequences, -1)
    tokens = torch.cat((prompt, torch.randint(VOCABULARY, (sequences, length + 1))), dim=1)
    for part in tokens.split(max(1, MOST_LOGITS // VOCABULARY // length)):
        logits = functional.linear(model(part[:, :-1])[:, common:], model.embedding)
        functional.cross_entropy(logits.flatten(0, 1), part[:, common + 1 :].flatten(), reduction="sum").backward()
        del logits
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return sequences * length


def group(members, prompt, answer):
    return train(members, answer, prompt)


def multiply(size):
    """As many floating-point operations as a product of two square matrices has."""
    torch.mm(torch.ones(size, size), torch.ones(size, size))
    return 2 * size**3


def measure(work, seconds, **request):
    """Does it once, and again until so many seconds are over."""
    run = {"sample": sample, "train": train, "group": group, "multiply": multiply}[work]
    began, amount = time.perf_counter(), 0
    while amount == 0 or time.perf_counter() - began < seconds:
        amount += run(**request)
    return {"amount": amount, "seconds": time.perf_counter() - began}


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
print(json.dumps({"version": torch.__version__}), flush=True)
for line in sys.stdin:
    print(json.dumps(measure(**json.loads(line))), flush=True)
