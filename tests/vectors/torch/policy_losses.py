"""The losses of policies by PyTorch: values, and gradients by its automatic differentiation.

    python3 tests/vectors/torch/policy_losses.py [FILE]    # needs torch; writes policy_losses.json beside this file

Formulas as the papers give them: PPO (Schulman et al. 2017), CISPO (MiniMax 2025), GSPO (Zheng et al. 2025), DRO (Richemond et
al. 2024, the policy's part with Tinker's advantages), importance sampling. Sums over tokens, of which those whose mask is 0
are none. Aggregations are of importance sampling over a step: DAPO, GRPO, Dr. GRPO. `kl_in_loss` is Schulman's third estimator,
`exp(reference - logprob) - (reference - logprob) - 1`.
"""

import json
import pathlib
import sys

import torch

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)

# Rollouts of a step, each with its rows' numbers of targets.
ROLLOUTS = [[5], [3, 4], [6], [2]]


def single(tensor):
    """Numbers that 32 bits hold exactly, as the engine is given them."""
    return tensor.to(torch.float32).to(torch.float64)


def rows():
    made = []
    for rollout, sizes in enumerate(ROLLOUTS):
        for size in sizes:
            sampler = single(-3 * torch.rand(size))
            mask = (torch.rand(size) > 0.25).to(torch.float64)
            mask[-1] = 1
            made.append({
                "rollout": rollout,
                "sampler": sampler,
                "logprobs": single(sampler + 0.4 * torch.randn(size)),
                "reference": single(sampler + 0.6 * torch.randn(size)),
                "advantages": single(torch.randn(())) * mask,
                "mask": mask,
            })
    return made


def clipped(ratio, advantage, low, high):
    return torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)


def importance_sampling(row, lp):
    return -(torch.exp(lp - row["sampler"]) * row["advantages"] * row["mask"])


def ppo(row, lp, low=0.8, high=1.2):
    return -clipped(torch.exp(lp - row["sampler"]), row["advantages"], low, high) * row["mask"]


def cispo(row, lp, low=0.0, high=1.5):
    ratio = torch.exp(lp - row["sampler"]).clamp(low, high).detach()
    return -(ratio * lp * row["advantages"] * row["mask"])


def gspo(row, lp, low=0.9, high=1.1):
    mask = row["mask"]
    mean = ((lp - row["sampler"]) * mask).sum() / mask.sum()
    # The ratio of the sequence, its gradient shared out over its tokens: s_t = sg(s) * p_t / sg(p_t).
    ratio = mean.detach().exp() * torch.exp(lp - lp.detach())
    return -clipped(ratio, row["advantages"], low, high) * mask


def dro(row, lp, beta=0.5):
    return -(lp * row["advantages"] - beta / 2 * (lp - row["sampler"]) ** 2) * row["mask"]


def kl_in_loss(row, lp, coefficient=0.2):
    away = row["reference"] - lp
    return coefficient * (torch.exp(away) - away - 1) * row["mask"]


def cross_entropy(row, lp):
    return -(row["advantages"].abs() * lp)


LOSSES = {
    "importance_sampling": (importance_sampling, {}),
    "ppo": (ppo, {"clip_low": 0.8, "clip_high": 1.2}),
    "cispo": (cispo, {"clip_low": 0.0, "clip_high": 1.5}),
    "gspo": (gspo, {"clip_low": 0.9, "clip_high": 1.1}),
    "dro": (dro, {"beta": 0.5}),
    "cross_entropy": (cross_entropy, {}),
    "kl_in_loss": (kl_in_loss, {"coefficient": 0.2}),
}


def differentiated(batch, loss):
    """The loss of some rows, and its gradient by each row's logprobs."""
    leaves = [row["logprobs"].clone().requires_grad_() for row in batch]
    value = loss(leaves)
    value.backward()
    return {"value": value.item(), "gradient": [leaf.grad.tolist() for leaf in leaves]}


def aggregated(name, batch):
    def loss(leaves):
        token_losses = [importance_sampling(row, leaf) for row, leaf in zip(batch, leaves)]
        tokens = [row["mask"].sum() for row in batch]
        of_rollout = [[i for i, row in enumerate(batch) if row["rollout"] == rollout] for rollout in range(len(ROLLOUTS))]
        sums = [sum(token_losses[i].sum() for i in indices) for indices in of_rollout]
        lengths = [sum(tokens[i] for i in indices) for indices in of_rollout]
        if name == "sum":
            return sum(sums)
        if name == "token_mean":
            return sum(sums) / sum(lengths)
        if name == "rollout_mean":
            return sum(total / length for total, length in zip(sums, lengths)) / len(sums)
        return sum(sums) / len(sums)

    return differentiated(batch, loss)


def main():
    batch = rows()
    made = {
        "rows": [{key: value.tolist() if torch.is_tensor(value) else value for key, value in row.items()} for row in batch],
        "losses": {},
        "aggregations": {},
    }
    for name, (loss, parameters) in LOSSES.items():
        of_batch = differentiated(batch, lambda leaves, loss=loss: sum(loss(row, leaf).sum() for row, leaf in zip(batch, leaves)))
        made["losses"][name] = {"parameters": parameters, **of_batch}
    for name in ["sum", "token_mean", "rollout_mean", "rollout_sum"]:
        made["aggregations"][name] = aggregated(name, batch)
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
