r"""Prints twelve arms of a sweep over learning rate, group size, loss and LoRA rank, one a line:

    python3 grid.py > grid.jsonl
    ../../target/debug/fulgurite sweep guess_number.toml --list grid.jsonl -o runs/grid \
        --set trainer.max_steps=20 --set trainer.substeps=2

They are half of the 24 combinations of 3 x 2 x 2 x 2 values, so chosen that any two values of two keys meet equally
often: twelve runs tell of each key what 24 would, but not of three keys together. With one optimizer step a batch the
two losses would have the same gradient, which is why there are two (`trainer.substeps`).
"""

import itertools
import json

VALUES = {
    "trainer.learning_rate": [1e-3, 3e-3, 1e-2],
    "trainer.group_size": [8, 16],
    "trainer.loss": ["importance_sampling", "ppo"],
    "models.0.lora_rank": [4, 16],
}


def arms():
    for rate in VALUES["trainer.learning_rate"]:
        two_valued = [values for key, values in VALUES.items() if key != "trainer.learning_rate"]
        for places in itertools.product(range(2), repeat=3):
            if sum(places) % 2 == 0:
                values = [rate, *(values[place] for values, place in zip(two_valued, places))]
                yield dict(zip(VALUES, values))


if __name__ == "__main__":
    for arm in arms():
        print(json.dumps(arm))
