"""The official SDK trains a model and samples from it, at the server whose URL is the first argument. The second is the
base model's path, the third the rank of the adapter that is trained, 0 for all weights. Prints what was found, as one line of JSON."""

import math
import sys

import numpy
from sdk import close, datum, logprobs, ready, refusal, takes, tell

import tinker
from tinker import types

url, path = sys.argv[1:3]
rank = int(sys.argv[3])
service = tinker.ServiceClient(base_url=url, api_key="tml-test")
[model] = service.get_server_capabilities().supported_models
training = ready(service.create_lora_training_client(base_model=model.model_name, rank=rank, seed=5))
info = training.get_info()
assert (info.is_lora, info.lora_rank) == (rank > 0, rank), info
assert info.model_data.model_name == "tiny" and info.model_data.tokenizer_id == path, info

sequence = [70, 81, 92, 73, 84, 95]
supervised = datum(sequence, weights=[0, 1, 1, 1, 1])

# A pass and a step are under way together; targets without weight are told too, and count for nothing.
losses = []
for _ in range(120):
    passed = training.forward_backward([supervised, supervised], "cross_entropy")
    stepped = training.optim_step(types.AdamParams(learning_rate=0.01))
    result = passed.result()
    first, second = logprobs(result)
    assert numpy.array_equal(first, second) and len(first) == 5 and all(first < 0), first
    assert math.isclose(result.metrics["loss:sum"], -2 * sum(first[1:]), rel_tol=1e-5)
    assert stepped.result().metrics["grad_norm"] > 0
    losses.append(result.metrics["loss:sum"])
assert losses[-1] < losses[0] / 4, losses

# Chunk 1 of a pass in several chunks comes last.
many = training.forward([supervised] * 1030, "cross_entropy").result()
assert len(many.loss_fn_outputs) == 1030
before = logprobs(many)[0]

# Samples are of the weights as they were when they were saved.
sampler = ready(training.save_weights_and_get_sampling_client())
greedy = types.SamplingParams(max_tokens=3, temperature=0.0, stop=[])
prompt = types.ModelInput.from_ints(sequence[:3])
training.forward_backward([supervised], "cross_entropy").result()
training.optim_step(types.AdamParams(learning_rate=0.05)).result()
[sampled] = sampler.sample(prompt, num_samples=1, sampling_params=greedy).result().sequences
assert list(sampled.tokens) == sequence[3:], list(sampled.tokens)
assert sampled.stop_reason == "length", sampled

warm = types.SamplingParams(max_tokens=8, seed=3, stop=[], temperature=9.0)
several = sampler.sample(prompt, num_samples=3, sampling_params=warm, include_prompt_logprobs=True, topk_prompt_logprobs=2)
several = several.result()
again = sampler.sample(prompt, num_samples=3, sampling_params=warm).result()
assert [list(s.tokens) for s in several.sequences] == [list(s.tokens) for s in again.sequences]
assert len({tuple(s.tokens) for s in several.sequences}) > 1
assert several.prompt_logprobs[0] is None
assert numpy.allclose(several.prompt_logprobs[1:], before[:2], atol=1e-6), (several.prompt_logprobs, before)
assert several.topk_prompt_logprobs[0] is None
for place, row in enumerate(several.topk_prompt_logprobs[1:], 1):
    assert len(row) == 2 and row[0][1] >= row[1][1] and row[0][1] >= several.prompt_logprobs[place]

# Tokens that might have stood in the prompt, and texts that end an answer.
if takes(sampler.sample, "prompt_alt_tokens_k"):
    options = dict(num_samples=1, sampling_params=types.SamplingParams(max_tokens=1, temperature=0.0), prompt_alt_tokens_k=2)
    drawn = sampler.sample(prompt, **options).result()
    tokens, drawn_logprobs = (values.to_numpy() for values in (drawn.prompt_alt_tokens.tokens, drawn.prompt_alt_tokens.logprobs))
    likeliest = [row[0][0] for row in several.topk_prompt_logprobs[1:]]
    assert tokens.tolist() == [[token, token] for token in likeliest] and not drawn_logprobs.any(), drawn
one = types.SamplingParams(max_tokens=2, seed=3, stop=[])
if takes(sampler.sample, "target_prompt_logprobs"):
    token, logprob = several.topk_prompt_logprobs[1][0]
    named = numpy.array([[token, -1], [sequence[2], 5]])
    options = dict(target_prompt_logprobs=types.TensorData.from_numpy(named), topk_sample_logprobs=2)
    answer = sampler.sample(prompt, 1, one, include_prompt_logprobs=True, **options).result()
    [[first, nothing], [second, _]] = answer.target_prompt_logprobs.to_numpy()
    assert first == logprob and second == answer.prompt_logprobs[2] and numpy.isnan(nothing), answer
    [sampled] = answer.sequences
    assert len(sampled.topk_logprobs) == 2 and all(len(row) == 2 for row in sampled.topk_logprobs), sampled
if takes(sampler.sample, "prompt_logprobs_last_n"):
    last = sampler.sample(prompt, 1, one, include_prompt_logprobs=True, prompt_logprobs_last_n=1).result().prompt_logprobs
    assert last[:2] == [None, None] and last[2] == several.prompt_logprobs[2], last
until = types.SamplingParams(max_tokens=64, seed=3, stop=["a", "zz"], temperature=9.0)
[sampled] = sampler.sample(prompt, num_samples=1, sampling_params=until).result().sequences
assert sampled.stop_reason == "stop" and len(sampled.tokens) < 64, sampled

# What is put in flight is what everybody who was given it before samples from.
if takes(training.save_weights_and_get_sampling_client, "kind"):
    first = ready(training.save_weights_and_get_sampling_client(kind="inflight"))
    assert first.compute_logprobs(prompt).result() != sampler.compute_logprobs(prompt).result()
    training.forward_backward([supervised], "cross_entropy").result()
    training.optim_step(types.AdamParams(learning_rate=0.01)).result()
    stale = first.compute_logprobs(prompt).result()
    second = ready(training.save_weights_and_get_sampling_client(kind="inflight"))
    assert first.compute_logprobs(prompt).result() == second.compute_logprobs(prompt).result() != stale

# The base model is as it was.
plain = types.SamplingParams(max_tokens=4, seed=3, stop=[])
base = ready(service.create_sampling_client(base_model=model.model_name))
assert not numpy.allclose(base.compute_logprobs(prompt).result()[1:], before[:2], atol=1e-2)

# An adapter can be taken away in PEFT's form.
if rank and hasattr(training, "save_weights_external"):
    away = training.save_weights_external("away").result().path
    links = service.create_rest_client().get_external_weights_urls(away).result().urls
    assert set(links) == {"adapter_config.json", "adapter_model.safetensors", "fulgurite.sha256"}, links

# A sampled row trains with each of the policy losses; the first ratio is exactly 1.
current = ready(training.save_weights_and_get_sampling_client())
answer = current.sample(prompt, num_samples=1, sampling_params=plain).result().sequences[0]
sequence = sequence[:3] + list(answer.tokens)
row = datum(
    sequence,
    logprobs=[0.0, 0.0] + list(answer.logprobs),
    advantages=[0.0, 0.0] + [1.5] * len(answer.tokens),
)
for loss, config in [
    ("importance_sampling", None),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}),
    ("cispo", None),
    ("dro", {"beta": 0.05}),
]:
    result = training.forward_backward([row], loss, loss_fn_config=config).result()
    [returned] = logprobs(result)
    assert numpy.array_equal(returned[2:], answer.logprobs), (returned, answer.logprobs)
    if loss in ("importance_sampling", "ppo"):
        assert math.isclose(result.metrics["loss:sum"], -1.5 * len(answer.tokens), rel_tol=1e-6), result.metrics

# What cannot be done is said, and does not hold up what comes after.
refused = {
    "loss": refusal(lambda: training.forward_backward([row], "stable_reinforce").result()),
    "step": refusal(lambda: training.optim_step(types.AdamParams()).result()),
    "base": refusal(lambda: ready(service.create_lora_training_client(base_model="other", rank=0))),
    "prompt": refusal(lambda: current.sample(types.ModelInput.from_ints([1] * 500), 1, plain).result()),
}
training.optim_step(types.AdamParams()).result()
close(service)
tell({"refused": refused, "losses": [losses[0], losses[-1]]})
