"""The losses of comparisons by PyTorch: values, and gradients by its automatic differentiation.

    python3 tests/vectors/torch/preferences.py [FILE]    # needs torch; writes preferences.json beside this file

Formulas as the papers give them: DPO (Rafailov et al. 2023) and its conservative form (Mitchell 2023), IPO (Azar et al. 2023, of
means over tokens), ORPO (Hong et al. 2024, the likelihood of the answer alone), KTO (Ethayarajh et al. 2024, the baseline taken as
a number). Means over comparisons, KTO's over answers.
"""

import json
import pathlib
import sys

import torch
from torch.nn.functional import logsigmoid

torch.manual_seed(30)
torch.set_default_dtype(torch.float64)

# Answers of each comparison: targets of the sequences of the chosen one, then of the rejected one.
PAIRS = [[[5], [3]], [[4, 2], [6]], [[2], [7]], [[3], [2, 3]]]
# KTO's answers: the targets of one, and whether it is good.
SINGLE = [([4], True), ([3], False), ([2, 3], False)]


def single(tensor):
    """Numbers that 32 bits hold exactly, as the engine is given them."""
    return tensor.to(torch.float32).to(torch.float64)


def answer(sizes):
    sequences = []
    for size in sizes:
        weights = torch.ones(size)
        weights[0] = 0 if size > 2 else 1
        sequences.append({"logprobs": single(-2 * torch.rand(size) - 0.05), "weights": weights})
    reference = sum((row["logprobs"] * row["weights"]).sum() for row in sequences)
    return {"sequences": sequences, "reference": single(reference + torch.randn(()))}


def pairs():
    return [{"chosen": answer(chosen), "rejected": answer(rejected)} for chosen, rejected in PAIRS]


def singles():
    return [{"chosen" if good else "rejected": answer(sizes)} for sizes, good in SINGLE]


def total(answer, logprobs):
    return sum((lp * row["weights"]).sum() for row, lp in zip(answer["sequences"], logprobs))


def count(answer):
    return sum(row["weights"].sum() for row in answer["sequences"])


def dpo(pair, lp, beta, smoothing=0.0):
    ratio = lambda side: total(pair[side], lp[side]) - pair[side]["reference"]
    x = beta * (ratio("chosen") - ratio("rejected"))
    return -(1 - smoothing) * logsigmoid(x) - smoothing * logsigmoid(-x)


def ipo(pair, lp, beta):
    ratio = lambda side: (total(pair[side], lp[side]) - pair[side]["reference"]) / count(pair[side])
    return (ratio("chosen") - ratio("rejected") - 1 / (2 * beta)) ** 2


def orpo(pair, lp, beta):
    mean = lambda side: total(pair[side], lp[side]) / count(pair[side])
    odds = lambda mean: mean - torch.log1p(-torch.exp(mean))
    return -mean("chosen") - beta * logsigmoid(odds(mean("chosen")) - odds(mean("rejected")))


def kto(pair, lp, beta, baseline, desirable, undesirable):
    loss = 0
    for side, weight, sign in [("chosen", desirable, 1), ("rejected", undesirable, -1)]:
        if side in pair:
            reward = total(pair[side], lp[side]) - pair[side]["reference"]
            loss = loss + weight * (1 - torch.sigmoid(sign * beta * (reward - baseline)))
    return loss


LOSSES = {
    "dpo": (dpo, {"beta": 0.1}),
    "conservative": (dpo, {"beta": 0.5, "smoothing": 0.125}),
    "ipo": (ipo, {"beta": 0.25}),
    "orpo": (orpo, {"beta": 0.25}),
    "kto": (kto, {"beta": 0.25, "baseline": 0.375, "desirable": 1.0, "undesirable": 1.5}),
}


def graded(loss, parameters, comparisons):
    logprobs = [
        {side: [row["logprobs"].clone().requires_grad_() for row in own["sequences"]] for side, own in pair.items()}
        for pair in comparisons
    ]
    counted = sum(len(pair) for pair in comparisons) if loss is kto else len(comparisons)
    value = sum(loss(pair, lp, **parameters) for pair, lp in zip(comparisons, logprobs)) / counted
    value.backward()
    gradient = [lp.grad for pair in logprobs for side in ("chosen", "rejected") for lp in pair.get(side, [])]
    return {"parameters": parameters, "scale": 1 / counted, "value": value, "gradient": gradient}


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


made = {"pairs": pairs(), "singles": singles()}
made["losses"] = {name: graded(loss, parameters, made["pairs"]) for name, (loss, parameters) in LOSSES.items()}
made["losses"]["kto"] = graded(kto, LOSSES["kto"][1], made["pairs"] + made["singles"])
target = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
with open(target, "w") as out:
    json.dump(plain(made), out, indent=1)
    out.write("\n")
