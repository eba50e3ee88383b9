"""The learner in PyTorch against the embedded one on SmolLM2-135M, by runs of the command.

    torch_truth.py DIRECTORY losses    # one update of every loss from one checkpoint: gradient and logprobs
    torch_truth.py DIRECTORY runs      # hello by LoRA: rewards of torch's seeds within the spread of the embedded learner's

The embedded learner makes a first update of an adapter. Either learner makes the second one from a copy of that checkpoint, of the
same data: what the embedded engine samples follows from its seed. A gradient is what an update adds to Adam's first moments.
Tolerances: the gradient within 1e-4 of its norm, logprobs within 1e-4 in the mean square and 5e-4 at most.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("FULGURITE", str(ROOT / "target/debug/fulgurite"))
MODEL = ROOT / "examples/hello/models/SmolLM2-135M-Instruct"
GRADIENT, SQUARE, GREATEST = 1e-4, 1e-4, 5e-4
BETA = 0.9
WORDS = [
    "a baker who opens the shop before dawn", "a sailor far from any harbour", "a number that likes its neighbours",
    "a teacher on the first day of school", "a clock in an empty station", "a gardener after the rain",
]  # fmt: skip
OF_DATA = {"sft": "conversations", "dpo": "comparisons", "ipo": "comparisons", "orpo": "comparisons", "kto": "comparisons"}
OF_POLICIES = ["importance_sampling", "ppo", "cispo", "dro", "gspo"]
SEEDS, SEEDS_OF_TORCH, UPDATES = [1, 2, 3], [1, 2], 6

CONFIG = f"""
[run]
name = "truth"
seed = 1

[[models]]
name = "hello"
backend = "embedded"
path = "{MODEL}"
lora_rank = 8

[torch]
python = "{sys.executable}"
"""
OF_POLICY = """
[tasks]
train = { range = [0, 1000] }

[runner]
command = ["hello-agent", "{task}"]
grade = ["sh", "-c", "n=$(wc -c); echo '{\\"reward\\": '$((n % 3))'}'"]
timeout_seconds = 600
"""


def write_data(directory: Path) -> None:
    """Write conversations and comparisons."""
    chats, pairs = [], []
    for n in range(8):
        question, answer = f"Let's play a game. Say you are {n}.", f"I am {n}, {WORDS[n % 6]}."
        chats.append({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]})
        rejected = f"As a language model I cannot be {n}, or {WORDS[(n + 3) % 6]}."
        pairs.append({"prompt": question, "chosen": answer, "rejected": rejected})
    for name, rows in (("conversations", chats), ("comparisons", pairs)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def config_of(loss: str) -> str:
    """Return the config of a run of two updates."""
    usual = "gradient_clip_norm = 0.0\nlearning_rate = 1e-3\ncheckpoint_every = 1\n"
    if loss in OF_DATA:
        source = f'source = {{ {OF_DATA[loss]} = "{OF_DATA[loss]}.jsonl" }}\nbatch_size = 4\nepochs = 1\n'
        return f'{CONFIG}\n[trainer]\nobjective = "{loss}"\n{source}{usual}'
    sampled = "groups_per_batch = 2\ngroup_size = 4\nmax_steps = 2\n"
    return f'{CONFIG}{OF_POLICY}\n[trainer]\nloss = "{loss}"\n{sampled}{usual}'


def train(config: Path, run: Path, *flags: str) -> list[dict[str, Any]]:
    """Run the command; return the lines that it prints."""
    command = [COMMAND, "train", config, "--run-directory", run, "--json", *flags]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def moments(run: Path, step: int) -> dict[str, torch.Tensor]:
    """Return Adam's first moments after an update."""
    whole = load_file(run / f"checkpoints/{step:06}/optimizer.state")
    return {name: it.double() for name, it in whole.items() if name.startswith("first_moment.")}


def compare_loss(directory: Path, loss: str) -> bool:
    """Make the second update by either learner; print what is apart."""
    config = directory / f"{loss}.toml"
    config.write_text(config_of(loss))
    start = directory / f"{loss}-start"
    train(config, start, "--max-steps", "1")
    gradients, steps = [], []
    for learner in ("embedded", "torch"):
        run = directory / f"{loss}-{learner}"
        shutil.copytree(start, run)
        lines = train(config, run, "--resume", "--max-steps", "2", "--set", f"models.0.learner={learner}")
        steps.append(next(line for line in lines if line.get("optim/datums") and line.get("step") == 1))
        before, after = moments(run, 1), moments(run, 2)
        gradients.append(torch.cat([((after[it] - BETA * before[it]) / (1 - BETA)).reshape(-1) for it in sorted(before)]))
        shutil.rmtree(run)
    shutil.rmtree(start)
    own, theirs = gradients
    norm, apart = float(own.norm()), float((own - theirs).norm())
    within = apart < GRADIENT * norm and norm > 0
    described = ""
    difference = steps[1].get("optim/logprob_difference_max")
    if difference is not None:
        square = (2 * steps[1]["optim/kl_sample_train_v2"]) ** 0.5
        described = f"; logprobs of {steps[1]['optim/trained_tokens']:.0f} tokens {square:.1e} apart in the mean square, {difference:.1e} at most"
        within = within and square < SQUARE and difference < GREATEST and steps[0]["optim/logprob_difference_max"] == 0
    norms = [step["optim/gradient_norm"] for step in steps]
    print(f"{loss:20} gradient {norms[0]:.6f} and {norms[1]:.6f}, {apart / norm:.1e} of it apart{described}: "
          f"{'within' if within else 'NOT WITHIN'}", flush=True)  # fmt: skip
    return within


def compare_losses(directory: Path) -> bool:
    """Compare every loss."""
    write_data(directory)
    print(f"tolerances: gradient {GRADIENT} of its norm; logprobs {SQUARE} in the mean square, {GREATEST} at most")
    within = [compare_loss(directory, loss) for loss in [*OF_DATA, *OF_POLICIES]]
    return all(within)


def compare_runs(directory: Path) -> bool:
    """Hold the mean rewards of torch's runs against the embedded learner's, whose spread is allowed on either side."""
    means: dict[str, list[float]] = {}
    for learner, seeds in (("embedded", SEEDS), ("torch", SEEDS_OF_TORCH)):
        for seed in seeds:
            lines = train(
                ROOT / "examples/hello/smollm2.toml", directory / f"{learner}-{seed}", "--seed", str(seed),
                "--max-steps", str(UPDATES), "--set", "trainer.evaluation.every=1000",
                "--set", "trainer.evaluation.samples_per_task=1", "--set", "tasks.final={range=[7000,7001]}",
                "--set", f"models.0.learner={learner}", "--set", f"torch.python={sys.executable}",
            )  # fmt: skip
            rewards = [line["env/all/reward/total"] for line in lines if "env/all/reward/total" in line]
            means.setdefault(learner, []).append(sum(rewards) / len(rewards))
            print(f"{learner:8} seed {seed}: rewards {' '.join(f'{it:.2f}' for it in rewards)}", flush=True)
    low, high = min(means["embedded"]), max(means["embedded"])
    within = all(2 * low - high <= it <= 2 * high - low for it in means["torch"])
    print(f"means {means}: torch's are {'within' if within else 'NOT WITHIN'} the spread of the embedded learner's")
    return within


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.exit(0 if (compare_losses if sys.argv[2] == "losses" else compare_runs)(place) else 1)
