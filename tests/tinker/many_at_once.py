"""The official SDK asks the server whose URL is the first argument for more at once than it takes. Prints `{}` as the last
line."""

import pickle
import sys

from sdk import close, datum, ready, tell

import tinker
from tinker import types

service = tinker.ServiceClient(base_url=sys.argv[1], api_key="tml-test")


def losses(ahead):
    """Of a few steps of a new model, with so many under way together."""
    training = ready(service.create_lora_training_client(base_model="tiny", rank=0))
    pending, found = [], []
    for _ in range(6):
        passed = training.forward_backward([datum([70, 81, 92, 73])], "cross_entropy")
        pending.append((passed, training.optim_step(types.AdamParams(learning_rate=0.01))))
        if len(pending) == ahead:
            found += [passed.result().metrics["loss:sum"] for passed, _ in pending]
            pending = []
    return found


alone = losses(1)
assert losses(6) == alone and alone[-1] < alone[0], alone

# More sequences than the sampler's queue holds.
sampler = ready(service.create_sampling_client(base_model="tiny"))
prompt, short = types.ModelInput.from_ints([5, 6]), types.SamplingParams(max_tokens=2, stop=[])
pending = [sampler.sample(prompt, num_samples=100, sampling_params=short) for _ in range(30)]
assert all(len(sampled.result().sequences) == 100 for sampled in pending)

# As a client does that was told to ask after many at once.
config = service.holder.get_client_config()
if hasattr(config, "sample_use_retrieve_futures"):
    together = {"sample_use_retrieve_futures": True, "sample_join_sampling_session": True}
    service.holder._client_config = config.model_copy(update=together)
    for each in (ready(service.create_sampling_client(base_model="tiny")), pickle.loads(pickle.dumps(sampler))):
        pending = [each.sample(prompt, num_samples=3, sampling_params=short) for _ in range(40)]
        assert all(len(sampled.result().sequences) == 3 for sampled in pending)
close(service)
tell({})
