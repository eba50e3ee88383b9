"""Losses by TRL's own code over pinned logprobs: values, and gradients by PyTorch's automatic differentiation.

    PYTHONPATH=TRL python3 tests/vectors/trl/losses.py [FILE]    # needs trl 1.16.0; writes losses.json beside this file

`DPOTrainer._compute_loss`, `CPOTrainer.cpo_loss` (SimPO), `RewardTrainer.compute_loss` and `GRPOTrainer._compute_loss` are called
as they are, over a model that answers with the numbers below. What they need of a trainer is a plain object.
"""

import contextlib
import json
import pathlib
import sys
import types
from collections import defaultdict

import torch
import trl
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.trainer import dpo_trainer, grpo_trainer
from trl.trainer.reward_trainer import RewardTrainer

torch.manual_seed(40)
torch.set_default_dtype(torch.float64)

# Tokens of the chosen and of the rejected answer of each comparison.
PAIRS = [(5, 3), (2, 6), (4, 4), (3, 7)]
# Tokens of each rollout.
ROLLOUTS = [5, 3, 6, 2]
PROMPT = 2


def single(tensor):
    """Numbers that 32 bits hold exactly, as the engine is given them."""
    return tensor.to(torch.float32).to(torch.float64)


class Accelerator:
    """One process."""

    sync_gradients = False
    num_processes = 1

    def gather(self, tensor):
        return tensor

    gather_for_metrics = gather

    def pad_across_processes(self, tensor, **_):
        return tensor

    def reduce(self, tensor, **_):
        return tensor

    device = torch.device("cpu")


class Model:
    """Answers with logprobs of the targets, one fewer than there are tokens."""

    training = True

    def __init__(self, logprobs):
        self.logprobs = logprobs

    def __call__(self, **_):
        nothing = torch.zeros_like(self.logprobs)
        return types.SimpleNamespace(
            log_probs=self.logprobs, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool(), log_sum_sq_probs=nothing
        )


def padded(rows, width):
    """Logprobs behind a prompt, and the mask of all tokens."""
    values, mask = torch.zeros(len(rows), PROMPT + width - 1), torch.zeros(len(rows), PROMPT + width, dtype=torch.long)
    for place, row in enumerate(rows):
        values[place, PROMPT - 1 : PROMPT - 1 + len(row)] = row
        mask[place, PROMPT : PROMPT + len(row)] = 1
    return values, mask


def comparisons():
    answer = lambda count: single(-2 * torch.rand(count) - 0.05)
    made = []
    for sizes in PAIRS:
        sides = [{"logprobs": answer(count)} for count in sizes]
        for side in sides:
            side["reference"] = single(side["logprobs"] + 0.5 * torch.randn(len(side["logprobs"])))
        made.append({"chosen": sides[0], "rejected": sides[1]})
    return made


def preference(pairs, loss_type, beta, label_smoothing=0.0, weights=None, ld_alpha=None):
    rows = [pair[side] for side in ("chosen", "rejected") for pair in pairs]
    leaves = [row["logprobs"].clone().requires_grad_() for row in rows]
    width = max(len(leaf) for leaf in leaves)
    logprobs, mask = padded(leaves, width)
    reference, _ = padded([row["reference"] for row in rows], width)
    trainer = types.SimpleNamespace(
        model=Model(logprobs), ref_model=Model(reference), accelerator=Accelerator(), args=types.SimpleNamespace(
            gradient_checkpointing_kwargs=None, discopop_tau=0.05), aux_loss_enabled=False, ld_alpha=ld_alpha,
        precompute_ref_logps=False, f_divergence_type="reverse_kl", loss_types=loss_type, use_weighting=False,
        loss_weights=weights or [1.0] * len(loss_type), beta=beta, label_smoothing=label_smoothing,
        _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1)
    dpo_trainer.disable_gradient_checkpointing = lambda *_: contextlib.nullcontext()
    dpo_trainer.is_peft_model = lambda _: False
    inputs = {"completion_mask": mask, "input_ids": torch.ones_like(mask), "attention_mask": torch.ones_like(mask)}
    value = dpo_trainer.DPOTrainer._compute_loss(trainer, trainer.model, inputs, False)
    value.backward()
    return value, split([leaf.grad for leaf in leaves], len(pairs))


def simpo(pairs, beta, gamma):
    leaves = {side: [pair[side]["logprobs"].clone().requires_grad_() for pair in pairs] for side in ("chosen", "rejected")}
    means = {side: torch.stack([leaf.mean() for leaf in of_side]) for side, of_side in leaves.items()}
    trainer = types.SimpleNamespace(
        alpha=0.0, loss_type="simpo", simpo_gamma=gamma, beta=beta, label_smoothing=0.0, accelerator=Accelerator())
    losses, _, _ = CPOTrainer.cpo_loss(trainer, means["chosen"], means["rejected"])
    value = losses.mean()
    value.backward()
    return value, split([leaf.grad for side in ("chosen", "rejected") for leaf in leaves[side]], len(pairs))


def split(gradients, count):
    """Of each comparison the chosen answer's gradient, then the rejected one's."""
    return [gradient for place in range(count) for gradient in (gradients[place], gradients[count + place])]


PREFERENCES = {
    "sigmoid": {"loss_type": ["sigmoid"], "beta": 0.1},
    "hinge": {"loss_type": ["hinge"], "beta": 0.5},
    "robust": {"loss_type": ["robust"], "beta": 0.5, "label_smoothing": 0.125},
    "apo_zero": {"loss_type": ["apo_zero"], "beta": 0.25},
    "apo_down": {"loss_type": ["apo_down"], "beta": 0.25},
    "sigmoid_with_sft": {"loss_type": ["sigmoid", "sft"], "beta": 0.1, "weights": [1.0, 0.5]},
    "length_desensitized": {"loss_type": ["sigmoid"], "beta": 0.1, "ld_alpha": 0.25},
    "three": {"loss_type": ["sigmoid", "apo_zero", "sft"], "beta": 0.25, "weights": [0.75, 0.5, 0.125]},
    "hinge_and_robust": {
        "loss_type": ["hinge", "robust"], "beta": 0.5, "label_smoothing": 0.125, "weights": [2.0, 0.25]},
}

# Scores of the chosen and of the rejected answer of each comparison.
SCORES = [(1.5, -0.25), (-0.75, 0.5), (3.0, 2.875), (0.0, 0.0)]
REWARDS = {"plain": None, "centered": 0.125}


def reward(center_rewards_coefficient):
    """Of `RewardTrainer.compute_loss`, with the gradient by each score."""
    leaves = [torch.tensor([pair[side] for pair in SCORES]).requires_grad_() for side in (0, 1)]
    logits = torch.cat(leaves)[:, None]
    model = lambda **_: types.SimpleNamespace(logits=logits)
    trainer = types.SimpleNamespace(
        model=Model(None), args=types.SimpleNamespace(center_rewards_coefficient=center_rewards_coefficient),
        accelerator=Accelerator(), _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1)
    value = RewardTrainer.compute_loss(trainer, model, {"attention_mask": torch.ones(2 * len(SCORES), 3)})
    value.backward()
    gradient = list(zip(*(leaf.grad.tolist() for leaf in leaves)))
    return {"center_rewards_coefficient": center_rewards_coefficient, "value": value, "gradient": gradient}


def rollouts():
    made = []
    for count in ROLLOUTS:
        sampler = single(-3 * torch.rand(count))
        made.append({
            "sampler": sampler,
            "logprobs": single(sampler + 0.6 * torch.randn(count)),
            "entropies": single(2 * torch.rand(count)),
            "advantage": single(torch.randn(())),
        })
    return made


def policy(rows, loss_type="grpo", top_entropy_quantile=1.0, entropy_coef=0.0, **args):
    leaves = [row["logprobs"].clone().requires_grad_() for row in rows]
    entropies = [row["entropies"].clone().requires_grad_() for row in rows]
    width = max(ROLLOUTS)
    wide = lambda lists: torch.stack([torch.cat([one, torch.zeros(width - len(one))]) for one in lists])
    mask = wide([torch.ones(count) for count in ROLLOUTS])
    usual = {"delta": None, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "use_bias_correction_kl": False}
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=True), accelerator=Accelerator(), args=types.SimpleNamespace(**{**usual, **args}),
        aux_loss_enabled=False, top_entropy_quantile=top_entropy_quantile, entropy_coef=entropy_coef,
        use_adaptive_entropy=False, _entropy_bonus_enabled=entropy_coef != 0.0, off_policy_mask_threshold=None,
        importance_sampling_level="token", beta=0.0, loss_type=loss_type, epsilon_low=0.2, epsilon_high=0.28,
        use_vllm=False, vllm_importance_sampling_correction=False, current_gradient_accumulation_steps=1.0,
        max_completion_length=10, _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (wide(leaves), wide(entropies), None))
    trainer.get_high_entropy_mask = lambda *of: grpo_trainer.GRPOTrainer.get_high_entropy_mask(trainer, *of)
    ones = torch.ones(len(rows), width, dtype=torch.long)
    inputs = {
        "prompt_ids": ones, "prompt_mask": ones, "completion_ids": ones, "completion_mask": mask,
        "advantages": torch.stack([row["advantage"] for row in rows]), "old_per_token_logps": wide([row["sampler"] for row in rows]),
    }
    value = grpo_trainer.GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    value.backward()
    made = {"value": value, "gradient": [leaf.grad for leaf in leaves]}
    if entropy_coef:
        made["entropy_gradient"] = [leaf.grad for leaf in entropies]
    return made


POLICIES = {
    "dual_clip": {"delta": 1.5},
    "sapo": {"loss_type": "sapo"},
    "sapo_other_temperatures": {"loss_type": "sapo", "sapo_temperature_pos": 2.0, "sapo_temperature_neg": 3.0},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "top_entropy": {"top_entropy_quantile": 0.3},
    "entropy_bonus": {"entropy_coef": 0.25},
}


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def main():
    pairs, rows = comparisons(), rollouts()
    made = {"trl": trl.__version__, "pairs": pairs, "preferences": {}, "rollouts": rows, "policies": {}}
    for name, parameters in PREFERENCES.items():
        value, gradient = preference(pairs, **parameters)
        made["preferences"][name] = {"parameters": parameters, "value": value, "gradient": gradient}
    parameters = {"beta": 2.0, "gamma": 0.5}
    value, gradient = simpo(pairs, **parameters)
    made["preferences"]["simpo"] = {"parameters": parameters, "value": value, "gradient": gradient}
    made["scores"] = SCORES
    made["rewards"] = {name: reward(coefficient) for name, coefficient in REWARDS.items()}
    for name, parameters in POLICIES.items():
        made["policies"][name] = {"parameters": parameters, **policy(rows, **parameters)}
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(plain(made), indent=1) + "\n")


if __name__ == "__main__":
    main()
