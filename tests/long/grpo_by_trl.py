"""One step of TRL's own GRPO loss against one of the learner in PyTorch: the same model, the same group of answers.

    grpo_by_trl.py                    # a random model of two layers
    grpo_by_trl.py MODEL [KIND...]    # a directory, and of TRL's losses these alone

Tolerances: the loss within 1e-5 of the sum of its terms' sizes, the gradient within 1e-4 of its norm, and of the weights after AdamW's step at most one
in a thousand that are further apart than a hundredth of the step (the first step is nearly the gradient's sign, which is
not known where the gradient is near epsilon).
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import datasets
import peft
import tokenizers
import torch
import transformers
import trl
from fulgurite.learner.datums import Datums
from fulgurite.learner.learner import Learner
from fulgurite.learner.losses import TokenLoss
from fulgurite.learner.policy import Lora, Policy

LOSS, GRADIENT, WEIGHTS, FAR = 1e-5, 1e-4, 1e-3, 1e-2
GROUP, PROMPT, LONGEST = 8, 24, 20
LOW, HIGH = 0.2, 0.28
RATE = 1e-5
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""Of adapters: TRL's trainer takes none beside the head."""

KINDS = {
    # TRL's settings, and the loss of ours that has its place.
    "grpo": ({"loss_type": "grpo"}, "ppo"),
    "bnpo": ({"loss_type": "bnpo"}, "ppo"),
    "dr_grpo": ({"loss_type": "dr_grpo"}, "ppo"),
    "dapo": ({"loss_type": "dapo"}, "ppo"),
    "cispo": ({"loss_type": "cispo", "epsilon_high": HIGH}, "cispo"),
    "gspo": ({"loss_type": "dapo", "importance_sampling_level": "sequence"}, "gspo"),
}


def make_model(directory: Path) -> Path:
    """Write a random model and a tokenizer of its numbers."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=307, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, initializer_range=0.1, tie_word_embeddings=True,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{n}": n for n in range(307)}, unk_token="w0"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1").save_pretrained(directory)
    return directory


class Group:
    """A prompt, and answers of several lengths that were sampled under other weights than those that are trained."""

    def __init__(self, vocabulary: int) -> None:
        """Draw it."""
        draw = torch.Generator().manual_seed(5)
        self.prompt = torch.randint(2, vocabulary, (PROMPT,), generator=draw)
        self.lengths = torch.randint(4, LONGEST + 1, (GROUP,), generator=draw).tolist()
        self.answers = [torch.randint(2, vocabulary, (length,), generator=draw) for length in self.lengths]
        self.shifts = [0.3 * torch.randn(length, generator=draw) for length in self.lengths]
        rewards = torch.randn(GROUP, generator=draw)
        self.advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)

    def datums(self, scales: torch.Tensor, old: list[torch.Tensor]) -> Datums:
        """Return them as the trainer sends them, with advantages times `scales`: a loss is a sum over tokens."""
        whole = [torch.cat([self.prompt, answer]) for answer in self.answers]
        before = torch.zeros(PROMPT - 1)

        def placed(values: list[torch.Tensor]) -> torch.Tensor:
            return torch.cat([torch.cat([before, value]) for value in values])

        return Datums.read(
            {
                "positions": torch.tensor([len(it) - 1 for it in whole]),
                "widths": torch.ones(GROUP, dtype=torch.long),
                "inputs": torch.ones(GROUP, dtype=torch.uint8),
                "tokens": torch.cat([it[:-1] for it in whole]),
                "targets": torch.cat([it[1:] for it in whole]),
                "weights": placed([torch.ones(length) for length in self.lengths]),
                "sampler_logprobs": placed(old),
                "advantages": placed([(a * s).repeat(n) for a, s, n in zip(self.advantages, scales, self.lengths, strict=True)]),
            }
        )

    def inputs(self, old: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return them as TRL has them after generation, with padding."""

        def padded(values: list[torch.Tensor]) -> torch.Tensor:
            return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)

        return {
            "prompt_ids": self.prompt.repeat(GROUP, 1),
            "prompt_mask": torch.ones(GROUP, PROMPT, dtype=torch.long),
            "completion_ids": padded(self.answers),
            "completion_mask": padded([torch.ones(length, dtype=torch.long) for length in self.lengths]),
            "advantages": self.advantages,
            "old_per_token_logps": padded(old),
            "num_items_in_batch": torch.tensor(float(sum(self.lengths))),
        }

    def scales(self, kind: str) -> torch.Tensor:
        """Return what TRL divides the sum over an answer's tokens by, as a factor."""
        lengths = torch.tensor(self.lengths, dtype=torch.float32)
        if kind == "grpo":
            return 1 / (lengths * GROUP)
        if kind == "dr_grpo":
            return torch.full((GROUP,), 1 / (GROUP * LONGEST))
        return torch.full((GROUP,), 1 / float(lengths.sum()))

    def size(self, kind: str) -> float:
        """Return the sum of the sizes of a loss's terms, which are about their advantages: the terms nearly cancel."""
        lengths = torch.tensor(self.lengths, dtype=torch.float32)
        return float((self.advantages.abs() * lengths * self.scales(kind)).sum())


def prompts() -> datasets.Dataset:
    """Return what TRL's trainer wants to be given, and nothing is generated from. It has a fingerprint, so that none is made."""
    table = datasets.table.InMemoryTable.from_pydict({"prompt": ["w2"] * GROUP})
    return datasets.Dataset(table, fingerprint="prompts")


def by_trl(path: Path, group: Group, kind: str, old: list[torch.Tensor], rank: int, ours: Learner):
    """Return loss, gradients and weights after the step, by the names that ours have."""
    settings = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=GROUP, num_generations=GROUP, learning_rate=RATE,
        max_completion_length=LONGEST, use_cpu=True, bf16=False, report_to=[], beta=0.0, gradient_checkpointing=False,
        optim="adamw_torch", **{"epsilon": LOW, "epsilon_high": HIGH, **KINDS[kind][0]},
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    names = {name: name for name in ours.policy.trained}
    if rank:
        config = ours.policy._adapted.peft_config["default"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            task_type="CAUSAL_LM", r=config.r, lora_alpha=config.lora_alpha, target_modules=sorted(config.target_modules),
        ))  # fmt: skip
        names = {name: name.replace(".weight", ".default.weight") for name in ours.policy.trained}
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=prompts(),
        processing_class=transformers.AutoTokenizer.from_pretrained(path),
    )
    parameters = dict(trainer.model.named_parameters())
    with torch.no_grad():
        for name, it in ours.policy.trained.items():
            parameters[names[name]].copy_(it)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    optimizer = trainer.create_optimizer()
    loss = trainer.compute_loss(trainer.model, group.inputs(old))
    trainer.accelerator.backward(loss)
    gradients = {name: parameters[names[name]].grad.clone() for name in names}
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), settings.max_grad_norm)
    for options in optimizer.param_groups:
        options["lr"] = RATE
    optimizer.step()
    adam = optimizer.param_groups[0]
    step = {
        "learning_rate": RATE,
        "beta1": adam["betas"][0],
        "beta2": adam["betas"][1],
        "epsilon": adam["eps"],
        "weight_decay": adam["weight_decay"],
        "gradient_clip_norm": settings.max_grad_norm,
    }
    return float(loss), gradients, {name: parameters[names[name]].detach() for name in names}, step


def compare(path: Path, rank: int, kinds: list[str]) -> bool:
    """Print what is apart; return whether it is within the tolerances."""
    group, passed = Group(transformers.AutoConfig.from_pretrained(path).vocab_size), True
    for kind in kinds:
        loss = KINDS[kind][1]
        policy = Policy(path, Lora(rank, 2.0 * rank, MODULES) if rank else None, 3, "cpu", "float32")
        ours = Learner(policy, 4096, "off")
        if rank:  # every part of the adapter has numbers that matter
            draw = torch.Generator().manual_seed(9)
            with torch.no_grad():
                for it in policy.trained.values():
                    it.add_(0.02 * torch.randn(it.shape, generator=draw))
        zeros = [torch.zeros(length) for length in group.lengths]
        known = ours.forward(group.datums(group.scales(kind), zeros))["logprobs"]
        starts = torch.tensor([0, *[PROMPT - 1 + length for length in group.lengths]]).cumsum(0).tolist()
        old = [known[s + PROMPT - 1 : s + PROMPT - 1 + n] + d for s, n, d in zip(starts, group.lengths, group.shifts, strict=False)]
        before = {name: it.detach().clone() for name, it in policy.trained.items()}
        theirs, their_gradients, their_weights, step = by_trl(path, group, kind, old, rank, ours)
        bounds = (0.0, HIGH) if kind == "cispo" else (1 - LOW, 1 + HIGH)
        found = ours.forward_backward(group.datums(group.scales(kind), old), TokenLoss(loss, *bounds))
        our_loss = float(found["loss_sum"])
        gradients = {name: it.grad.clone() for name, it in policy.trained.items()}
        norm, metrics = ours.optimizer_step(step)
        apart = sum(float((gradients[n] - their_gradients[n]).double().square().sum()) for n in gradients) ** 0.5
        far = total = 0
        for name, it in policy.trained.items():
            far += int(((it.detach() - their_weights[name]).abs() > FAR * RATE).sum())
            total += it.numel()
        moved = max(float((it.detach() - before[name]).abs().max()) for name, it in policy.trained.items())
        loss_apart = abs(our_loss - theirs) / group.size(kind)
        within = loss_apart < LOSS and apart < GRADIENT * norm and far < WEIGHTS * total and moved > 0.5 * RATE
        passed &= within
        print(
            f"  {kind:8} loss {our_loss:+.7f} and {theirs:+.7f} ({loss_apart:.1e} apart), gradient {norm:.6f}, {apart / norm:.1e} of it "
            f"apart, {far} of {total} weights apart; {int(metrics.get('learner_shared_tokens', 0))} tokens shared: "
            f"{'within' if within else 'NOT WITHIN'}",
            flush=True,
        )
    return passed


def main() -> None:
    """Compare all weights, and an adapter."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, trl {trl.__version__}")
    print(f"tolerances: loss {LOSS} of its terms' sizes, gradient {GRADIENT} of its norm, {WEIGHTS} of the weights further apart than {FAR} of the step")
    passed = True
    with tempfile.TemporaryDirectory() as directory:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else make_model(Path(directory) / "model")
        for rank in (0, 8):
            print(f"{path.name}, {f'an adapter of rank {rank}' if rank else 'all weights'}: ours and TRL's")
            passed &= compare(path, rank, sys.argv[2:] or list(KINDS))
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
