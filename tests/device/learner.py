"""The learner in PyTorch on a GPU: bfloat16 against float32, and its speed and memory beside a plain loop's in one run.

    learner.py [--tiny] [--shape 0.6b|4b]... [--steps N]

Models are random, in Qwen3's shapes. A step is a GRPO update of groups of answers to one prompt each, of LoRA at rank 32. The plain
loop is transformers and PEFT with padded rows, as many as the learner's pass holds. `--tiny` has shapes that the processors can do
in seconds. Each line is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from fulgurite.learner.datums import Datums
from fulgurite.learner.learner import Learner
from fulgurite.learner.losses import TokenLoss
from fulgurite.learner.policy import Lora, Policy

SHAPES = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000},
    "0.6b": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
             "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
    "4b": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
           "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
}  # fmt: skip
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK = 32
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "4090": 165e12}
"""Operations a second of dense products in bfloat16, as the makers have them."""
ADAM = {"learning_rate": 1e-5, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.0, "gradient_clip_norm": 1.0}
CLIPPED = TokenLoss("ppo", 0.8, 1.2)


@dataclass
class Work:
    """Groups of answers."""

    groups: int
    answers: int
    prompt: int
    answer: int
    limit: int
    """Tokens of a pass."""

    def rows(self, vocabulary: int, *, alike: bool) -> torch.Tensor:
        """Return tokens; the answers of a group have one prompt where they begin alike."""
        draw = torch.Generator().manual_seed(1)
        rows = torch.randint(vocabulary, (self.groups, self.answers, self.prompt + self.answer + 1), generator=draw)
        if alike:
            rows[:, :, : self.prompt] = rows[:, :1, : self.prompt].clone()
        return rows.reshape(-1, rows.shape[-1])

    @property
    def trained(self) -> int:
        """How many tokens are trained."""
        return self.groups * self.answers * self.answer

    def datums(self, rows: torch.Tensor) -> Datums:
        """Return what the trainer would send."""
        count, length = rows.shape[0], rows.shape[1] - 1
        mask = torch.zeros(count, length)
        mask[:, self.prompt :] = 1
        advantages = torch.randn(count, 1, generator=torch.Generator().manual_seed(2)).expand(-1, length)
        return Datums.read(
            {
                "positions": torch.full((count,), length),
                "widths": torch.ones(count, dtype=torch.long),
                "inputs": torch.ones(count, dtype=torch.uint8),
                "tokens": rows[:, :-1].reshape(-1),
                "targets": rows[:, 1:].reshape(-1),
                "weights": mask.reshape(-1),
                "sampler_logprobs": torch.full((count * length,), -10.0),
                "advantages": (advantages / self.trained).reshape(-1),
            }
        )


def say(**fields: Any) -> None:
    """Print a line."""
    print(json.dumps(fields), flush=True)


def make_model(shape: str, directory: Path) -> Path:
    """Write a random model, in bfloat16 unless it is tiny."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        **SHAPES[shape], max_position_embeddings=4096, tie_word_embeddings=True, rope_theta=1e6
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    return directory


def synchronize(device: str) -> None:
    """Wait for the GPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def timed(device: str, steps: int, step: Callable[[], Any]) -> dict[str, float]:
    """Return seconds of a step, after one that compiles and fills caches, and bytes at most."""
    step()
    synchronize(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize(device)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {"seconds": (time.perf_counter() - started) / steps, "peak_memory_bytes": float(peak)}


def peak_of(device: str) -> tuple[float, str]:
    """Return the operations a second that shares are of, and where they are from."""
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    for known, peak in PEAKS.items():
        if known in name:
            return peak, f"{known} by its maker"
    size = 512 if device == "cpu" else 8192
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    seconds = timed(device, 5, lambda: torch.mm(one, one, out=one.new_empty(size, size)))["seconds"]
    return 2 * size**3 / seconds, f"a product of {size} by {size}, measured"


def operations(shape: dict[str, int], rows: torch.Tensor, answer: int) -> float:
    """Return operations of a step of LoRA: products of layers forward and back by activations, those of the head for answers."""
    width = shape["num_attention_heads"] * shape["head_dim"]
    narrow = shape["num_key_value_heads"] * shape["head_dim"]
    layer = shape["hidden_size"] * (2 * width + 2 * narrow + 3 * shape["intermediate_size"])
    count, length = rows.shape[0], rows.shape[1] - 1
    layers = 4 * layer * shape["num_hidden_layers"] * count * length
    attention = 4 * shape["num_hidden_layers"] * count * length**2 * width / 2 * 3
    head = 4 * shape["hidden_size"] * shape["vocab_size"] * count * answer
    return float(layers + attention + head)


def opened(path: Path, device: str, dtype: str, limit: int) -> Learner:
    """Return the learner as the trainer has it."""
    return Learner(Policy(path, Lora(RANK, 32.0, MODULES), 3, device, dtype), limit, "on")


def plain_loop(path: Path, device: str, work: Work, rows: torch.Tensor, steps: int) -> dict[str, float]:
    """Measure transformers and PEFT with padded rows and whole logits."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).to(device)
    settings = peft.LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=32, target_modules=MODULES)
    model = peft.get_peft_model(model, settings)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    trained = [it for it in model.parameters() if it.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    advantages = torch.randn(len(rows), 1, generator=torch.Generator().manual_seed(2)).to(device) / work.trained
    batch = max(1, work.limit // (rows.shape[1] - 1))

    def step() -> None:
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch].to(device)
            logits = model(input_ids=part[:, :-1], use_cache=False).logits[:, work.prompt :].float()
            found = logits.log_softmax(-1).gather(2, part[:, work.prompt + 1 :, None])[..., 0]
            ratio = (found + 10.0).exp()
            own = advantages[start : start + batch]
            (-torch.minimum(ratio * own, ratio.clamp(0.8, 1.2) * own)).sum().backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return timed(device, steps, step)


def precision(path: Path, device: str, work: Work, data: Datums) -> dict[str, float]:
    """Hold bfloat16 against float32: logprobs of trained tokens, and the adapter's gradient."""
    found = {}
    for dtype in ("float32", "bfloat16"):
        learner = opened(path, device, dtype, work.limit)
        with torch.no_grad():  # an adapter whose second half is 0 has half of a gradient
            draw = torch.Generator().manual_seed(4)
            for it in learner.policy.trained.values():
                it.add_((0.01 * torch.randn(it.shape, generator=draw)).to(it.device))
        logprobs = learner.forward_backward(data, TokenLoss("importance_sampling"))["logprobs"]
        gradient = torch.cat([it.grad.reshape(-1).float().cpu() for it in learner.policy.trained.values()])
        found[dtype] = (logprobs[data.weights != 0], gradient)
        del learner
        clear(device)
    (exact, gradient), (rounded, its) = found["float32"], found["bfloat16"]
    apart = (rounded - exact).abs()
    return {
        "logprob_mean": float(apart.mean()),
        "logprob_max": float(apart.max()),
        "gradient_apart": float((its - gradient).norm() / gradient.norm()),
        "gradient_cosine": float(torch.nn.functional.cosine_similarity(its, gradient, 0)),
    }


def clear(device: str) -> None:
    """Free what the last measurement had."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def measure(shape: str, device: str, work: Work, steps: int) -> None:
    """Measure a shape."""
    peak, source = peak_of(device)
    with tempfile.TemporaryDirectory() as directory:
        path = make_model(shape, Path(directory) / "model")
        vocabulary = SHAPES[shape]["vocab_size"]
        small = Work(2, 2, work.prompt, work.answer, work.limit)
        data = small.datums(small.rows(vocabulary, alike=True))
        say(shape=shape, what="bfloat16 against float32", **precision(path, device, small, data))
        for alike in (False, True):
            rows = work.rows(vocabulary, alike=alike)
            data = work.datums(rows)
            rate = operations(SHAPES[shape], rows, work.answer)
            beginnings = "one prompt for a group" if alike else "prompts of their own"

            def report(what: str, found: dict[str, float], rate: float = rate, beginnings: str = beginnings, **more: Any) -> None:
                share = rate / found["seconds"] / peak
                tokens = work.trained / found["seconds"]
                fields = {"trained_tokens_per_second": round(tokens, 1), "share_of_peak": round(share, 4), "peak": source}
                say(shape=shape, what=what, rows=beginnings, **fields, **found, **more)

            learner = opened(path, device, "bfloat16", work.limit)
            metrics: dict[str, float] = {}

            def step(learner: Learner = learner, data: Datums = data, metrics: dict[str, float] = metrics) -> None:
                learner.forward_backward(data, CLIPPED)
                metrics.update(learner.optimizer_step(ADAM)[1])

            found = timed(device, steps, step)
            if "learner_peak_memory_bytes" in metrics:
                found["peak_memory_bytes"] = metrics["learner_peak_memory_bytes"]
            attention = learner.policy.sharing.attention if alike else learner.policy._usual_attention
            report("the learner", found, shared_tokens=metrics.get("learner_shared_tokens", 0.0), attention=attention)
            del learner, step
            clear(device)
            report("a plain loop", plain_loop(path, device, work, rows, steps))
            clear(device)


def main() -> None:
    """Measure all shapes that were named."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--tiny", action="store_true", help="shapes for processors")
    arguments.add_argument("--shape", action="append", choices=[it for it in SHAPES if it != "tiny"])
    arguments.add_argument("--steps", type=int, default=3)
    given = arguments.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not given.tiny:
        sys.exit("learner.py: torch sees no CUDA device; --tiny has shapes for processors")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    versions = {"torch": str(torch.__version__), "transformers": transformers.__version__, "peft": peft.__version__}
    say(device=torch.cuda.get_device_name() if device == "cuda" else "cpu", **versions)
    if given.tiny:
        measure("tiny", device, Work(2, 4, 24, 12, 128), 1)
        return
    for shape in given.shape or ["0.6b", "4b"]:
        measure(shape, device, Work(4, 8, 512, 256, 8192), given.steps)


if __name__ == "__main__":
    main()
