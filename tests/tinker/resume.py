"""The official SDK trains at the server whose URL is the first argument: `before` trains a model, or an adapter of the rank
that the third argument is, saves it and goes on; `after` goes on from what was saved, whose paths are the next. Prints what the going on came to, as one line of JSON."""

import sys

from sdk import datum, ready, tell

import tinker
from tinker import types

url, phase = sys.argv[1:3]
rank = int(sys.argv[3])
service = tinker.ServiceClient(base_url=url, api_key="tml-test")
row = [70, 81, 92, 73, 84, 95]
data = [datum(row)]


def train(training, steps):
    """The losses of so many steps."""
    pending = []
    for _ in range(steps):
        pending.append(training.forward_backward(data, "cross_entropy"))
        training.optim_step(types.AdamParams(learning_rate=0.005))
    return [passed.result().metrics["loss:sum"] for passed in pending]


if phase == "before":
    training = ready(service.create_lora_training_client(base_model="tiny", rank=rank))
    train(training, 5)
    path = training.save_state("state").result().path
    sampler_path = training.save_weights_for_sampler("sampler").result().path
    found = {"path": path, "sampler_path": sampler_path, "losses": train(training, 4)}
else:
    path, sampler_path = sys.argv[4:6]
    info = service.create_rest_client().get_weights_info_by_tinker_path(path).result()
    assert (info.is_lora, info.lora_rank) == (rank > 0, rank), info
    with_optimizer = ready(service.create_training_client_from_state_with_optimizer(path))
    weights_alone = ready(service.create_training_client_from_state(path))
    found = {"losses": train(with_optimizer, 4), "weights_alone": train(weights_alone, 4)}
    # As SDKs did it before they could make a model from a checkpoint.
    loaded = ready(service.create_lora_training_client(base_model="tiny", rank=rank))
    loaded.load_state_with_optimizer(path).result()
    assert train(loaded, 4) == found["losses"], found
sampler = ready(service.create_sampling_client(model_path=sampler_path))
prompt = types.ModelInput.from_ints(row)
found["logprobs"] = sampler.compute_logprobs(prompt).result()
warm = types.SamplingParams(max_tokens=6, seed=3, stop=[], temperature=2.0)
found["tokens"] = list(sampler.sample(prompt, num_samples=1, sampling_params=warm).result().sequences[0].tokens)
tell(found)
