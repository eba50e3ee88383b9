"""The losses of distillation by PyTorch: values, and gradients by its automatic differentiation.

    python3 tests/vectors/torch/distillation.py [FILE]    # needs torch; writes distillation.json beside this file

`on_policy`: advantages -c (s - t) of sampled tokens, s under the sampler and t under the teacher, or their discounted future sums,
0 where the mask is; and the gradient of importance sampling with them. `soft_targets`: cross entropy of logits against the
likeliest tokens of a teacher, renormalised over them, each position with a weight. `reverse`: KL(student || teacher) over such
tokens, both renormalised over them, `sum(p (log p - log q))`, and its gradient by the student's logprobs.
"""

import json
import pathlib
import sys

import torch

torch.manual_seed(31)
torch.set_default_dtype(torch.float64)


def single(tensor):
    """Numbers that 32 bits hold exactly."""
    return tensor.to(torch.float32).to(torch.float64)


def on_policy(coefficient, discount):
    sampler, teacher = single(-3 * torch.rand(6)), single(-3 * torch.rand(6))
    logprobs = single(sampler + 0.3 * torch.randn(6))
    mask = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    advantages = -coefficient * (sampler - teacher) * mask
    for place in reversed(range(5)):
        advantages[place] = advantages[place] + discount * advantages[place + 1]
    advantages = advantages * mask
    leaf = logprobs.clone().requires_grad_()
    loss = -(torch.exp(leaf - sampler) * advantages.detach() * mask).sum()
    loss.backward()
    return {
        "coefficient": coefficient, "discount": discount, "sampler": sampler.tolist(), "teacher": teacher.tolist(),
        "logprobs": logprobs.tolist(), "mask": mask.tolist(), "advantages": advantages.tolist(),
        "mean": (((sampler - teacher) * mask).sum() / mask.sum()).item(), "value": loss.item(),
        "gradient": leaf.grad.tolist(),
    }


def soft_targets(positions=4, vocabulary=11, width=3):
    logits, teacher = single(2 * torch.randn(positions, vocabulary)), single(2 * torch.randn(positions, vocabulary))
    top = torch.log_softmax(teacher, -1).topk(width)
    teacher_logprobs = single(top.values)
    weights = torch.tensor([0.25, 0.0, 0.5, 0.25])[:positions]
    probabilities = torch.softmax(teacher_logprobs, -1)
    leaf = logits.clone().requires_grad_()
    loss = -(weights[:, None] * probabilities * torch.log_softmax(leaf, -1).gather(-1, top.indices)).sum()
    loss.backward()
    entropy = -(weights[:, None] * probabilities * probabilities.log()).sum()
    return {
        "logits": logits.tolist(), "tokens": top.indices.tolist(), "teacher": teacher_logprobs.tolist(), "weights": weights.tolist(),
        "targets": (weights[:, None] * probabilities).tolist(), "value": loss.item(), "entropy": entropy.item(),
        "gradient": leaf.grad.tolist(),
    }


def reverse(positions=4, width=3):
    logprobs, teacher_logits = single(-3 * torch.rand(positions, width)), single(-3 * torch.rand(positions, width))
    weights = torch.tensor([0.25, 0.5, 1.0, 0.0])[:positions]
    leaf = logprobs.clone().requires_grad_()
    student, teacher = torch.log_softmax(leaf, -1), torch.log_softmax(teacher_logits, -1)
    per_place = (student.exp() * (student - teacher).detach()).sum(-1)
    loss = (weights * per_place).sum()
    loss.backward()
    return {
        "logprobs": logprobs.tolist(), "targets": (weights[:, None] * teacher.exp()).tolist(), "value": loss.item(),
        "gradient": leaf.grad.tolist(),
    }


def main():
    made = {"on_policy": [on_policy(1.0, 0.0), on_policy(0.5, 0.9)], "soft_targets": soft_targets(), "reverse": reverse()}
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
