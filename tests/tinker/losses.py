"""The official SDK computes every loss at the server whose URL is the first argument; values and gradients are compared with
what follows from the logprobs that it tells. Prints `{}` as the last line."""

import math
import sys

import numpy
from sdk import close, datum, logprobs, ready, tell, tensor

import tinker
from tinker import types

service = tinker.ServiceClient(base_url=sys.argv[1], api_key="tml-test")
training = ready(service.create_lora_training_client(base_model="tiny", rank=0))
rows = [[70, 81, 92, 73, 84, 95, 76], [31, 42, 53, 64]]


def datums(**inputs):
    """One datum of each row; an input has a list for each."""
    return [datum(row, **{name: values[index] for name, values in inputs.items()}) for index, row in enumerate(rows)]


def computed(data, loss, config=None):
    """The loss, and the norm of its gradient, of which a step without a learning rate tells."""
    passed = training.forward_backward(data, loss, loss_fn_config=config)
    stepped = training.optim_step(types.AdamParams(learning_rate=0.0))
    return passed.result(), stepped.result().metrics["grad_norm"]


def compare(name, actual, expected):
    assert math.isclose(actual, expected, rel_tol=2e-5, abs_tol=1e-6), (name, actual, expected)


generator = numpy.random.default_rng(7)
reference = logprobs(training.forward(datums(), "cross_entropy").result())
sampled = [row + generator.normal(scale=0.4, size=row.shape) for row in reference]
advantages = [generator.normal(size=row.shape) for row in reference]
for row in advantages:
    row[0] = 0.0
# The sampler's logprobs as the server reads them.
sampled = [numpy.float32(row).astype(float) for row in sampled]
advantages = [numpy.float32(row).astype(float) for row in advantages]
mask = [numpy.float32(row != 0.0) for row in advantages]
policy = dict(logprobs=sampled, advantages=advantages)


def clipped(low, high):
    """PPO's value and its slope in the logprob, of ratio and advantage."""

    def value(ratio, advantage):
        bounded = numpy.clip(ratio, low, high)
        return -numpy.minimum(ratio * advantage, bounded * advantage)

    def slope(ratio, advantage):
        counts = ratio * advantage <= numpy.clip(ratio, low, high) * advantage
        return -ratio * advantage * counts

    return value, slope


def importance(logprob, sampler_logprob, advantage, _mask):
    ratio = numpy.exp(logprob - sampler_logprob)
    return -ratio * advantage, -ratio * advantage


def ppo(low, high):
    value, slope = clipped(low, high)

    def loss(logprob, sampler_logprob, advantage, _mask):
        ratio = numpy.exp(logprob - sampler_logprob)
        return value(ratio, advantage), slope(ratio, advantage)

    return loss


def cispo(low, high):
    def loss(logprob, sampler_logprob, advantage, _mask):
        weight = numpy.clip(numpy.exp(logprob - sampler_logprob), low, high)
        return -weight * logprob * advantage, -weight * advantage

    return loss


def dro(beta):
    def loss(logprob, sampler_logprob, advantage, _mask):
        distance = logprob - sampler_logprob
        return -(logprob * advantage - beta / 2 * distance**2), -(advantage - beta * distance)

    return loss


def gspo(low, high):
    value, slope = clipped(low, high)

    def loss(logprob, sampler_logprob, advantage, mask):
        ratio = numpy.exp(numpy.sum((logprob - sampler_logprob) * mask) / numpy.sum(mask))
        ratio = numpy.full_like(logprob, ratio)
        return value(ratio, advantage), slope(ratio, advantage)

    return loss


for name, config, loss, inputs in [
    ("importance_sampling", None, importance, policy),
    ("ppo", None, ppo(0.8, 1.2), policy),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.05}, ppo(0.9, 1.05), policy),
    ("cispo", None, cispo(0.0, 4.0), policy),
    ("cispo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}, cispo(0.9, 1.1), policy),
    ("dro", {"beta": 0.05}, dro(0.05), policy),
    ("gspo", None, gspo(0.8, 1.2), policy | {"sequence_ratio_mask": mask}),
    (
        "gspo",
        {"clip_low_threshold": 0.98, "clip_high_threshold": 1.02},
        gspo(0.98, 1.02),
        policy | {"sequence_ratio_mask": mask},
    ),
]:
    result, norm = computed(datums(**inputs), name, config)
    values, slopes = zip(*(loss(*row) for row in zip(logprobs(result), sampled, advantages, mask)))
    compare(name, result.metrics["loss:sum"], sum(row.sum() for row in values))
    # A loss has the gradient of the cross entropy whose weights are its slopes, with their signs turned.
    surrogate, expected = computed(datums(weights=[-row for row in slopes]), "cross_entropy")
    compare(f"{name}'s gradient", norm, expected)
    assert norm > 0, name

# What `forward_backward_custom` asks for, without its need of torch: a pass without a gradient and without weights, the
# loss here, and its slopes as weights of any sign.
before = logprobs(training.forward(datums(weights=[row * 0 for row in reference]), "cross_entropy").result())
assert all(numpy.array_equal(left, right) for left, right in zip(before, reference))
target = [row * 0.5 for row in before]
slopes = [2 * (row - aim) for row, aim in zip(before, target)]
distance = sum(((row - aim) ** 2).sum() for row, aim in zip(before, target))
for _ in range(30):
    now = logprobs(training.forward(datums(weights=[row * 0 for row in reference]), "cross_entropy").result())
    slopes = [2 * (row - aim) for row, aim in zip(now, target)]
    passed = training.forward_backward(datums(weights=[-row for row in slopes]), "cross_entropy").result()
    compare("custom", passed.metrics["loss:sum"], sum((row * slope).sum() for row, slope in zip(now, slopes)))
    training.optim_step(types.AdamParams(learning_rate=0.003)).result()
after = logprobs(training.forward(datums(), "cross_entropy").result())
nearer = sum(((row - aim) ** 2).sum() for row, aim in zip(after, target))
assert nearer < distance / 10, (distance, nearer)

# Several targets for a position, as dense arrays and with the zeros left out.
row = rows[0]
targets = numpy.array([[target, (target + 1) % 128] for target in row[1:]])
weights = numpy.array([[0.5, 0.0], [0.0, 0.0], [0.25, 0.75], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
kept = numpy.nonzero(weights)


def sparse(values, dtype):
    ends = [0] + [int(numpy.sum(kept[0] <= place)) for place in range(len(weights))]
    return types.TensorData(
        data=numpy.array(values, dtype=dtype)[kept],
        dtype=dtype,
        shape=list(weights.shape),
        sparse_crow_indices=ends,
        sparse_col_indices=kept[1].tolist(),
    )


def several(targets, weights):
    inputs = {"target_tokens": targets, "weights": weights}
    return [types.Datum(model_input=types.ModelInput.from_ints(row[:-1]), loss_fn_inputs=inputs)]


dense, norm = computed(several(tensor(targets, "int64"), tensor(weights)), "cross_entropy")
dense_logprobs = logprobs(dense)[0].reshape(weights.shape)
compare("several targets", dense.metrics["loss:sum"], -(dense_logprobs * weights).sum())
alone = logprobs(training.forward(datums(), "cross_entropy").result())[0]
assert numpy.array_equal(dense_logprobs[:, 0], alone), (dense_logprobs, alone)
spread, sparse_norm = computed(several(sparse(targets, "int64"), sparse(weights, "float32")), "cross_entropy")
compare("sparse targets", spread.metrics["loss:sum"], dense.metrics["loss:sum"])
compare("sparse targets' gradient", sparse_norm, norm)
assert numpy.array_equal(logprobs(spread)[0].reshape(weights.shape)[kept], dense_logprobs[kept])
close(service)
tell({})
