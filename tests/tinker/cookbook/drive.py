"""tinker-cookbook's loops against the server whose URL is the first argument, with the model in the directory that is the
second, and logs below the third. Prints what was found; fails where it is not what cookbook.sh expects."""

import asyncio
import json
import math
import sys
from pathlib import Path

import torch
from tinker_cookbook.recipes.math_rl import arithmetic_env
from tinker_cookbook.recipes.math_rl import train as math_rl
from tinker_cookbook.supervised import train as supervised
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig

import tinker
from tinker import types

url, model, logs = sys.argv[1], sys.argv[2], Path(sys.argv[3])
RENDERER = "qwen3_instruct"


def metrics(log):
    return [json.loads(line) for line in (logs / log / "metrics.jsonl").read_text().splitlines()]


# A loss that is computed here: the squared distance of the logprobs from -1.
service = tinker.ServiceClient(base_url=url)
training = service.create_lora_training_client(base_model=model, rank=0).result()
tokens = [50, 61, 72, 83, 94, 105]
inputs = {"target_tokens": types.TensorData.from_torch(torch.tensor(tokens[1:]))}
data = [types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)]


def squared(_, logprobs):
    loss = sum(((row + 1) ** 2).sum() for row in logprobs)
    return loss, {"rows": len(logprobs)}


custom = []
for _ in range(20):
    passed = training.forward_backward_custom(data, squared).result()
    logprobs = torch.tensor(training.forward(data, "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist())
    assert math.isclose(passed.metrics["loss:sum"], ((logprobs + 1) ** 2).sum(), rel_tol=1e-5), passed.metrics
    training.optim_step(types.AdamParams(learning_rate=0.01)).result()
    custom.append(passed.metrics["loss:sum"])
print(f"forward_backward_custom: squared distance {custom[0]:.2f} -> {custom[-1]:.2f}")
assert custom[-1] < custom[0] / 4, custom
service.close("success").result()

# The supervised loop, on right answers alone.
lines = [line for line in Path("corpus.jsonl").read_text().splitlines() if json.loads(line)["messages"][-1]["content"] != "No."]
logs.mkdir(parents=True, exist_ok=True)
(logs / "right.jsonl").write_text("\n".join(lines[:2560]) + "\n")
asyncio.run(
    supervised.main(
        supervised.Config(
            log_path=str(logs / "supervised"),
            model_name=model,
            recipe_name="arithmetic",
            renderer_name=RENDERER,
            dataset_builder=FromConversationFileBuilder(
                file_path=str(logs / "right.jsonl"),
                common_config=ChatDatasetBuilderCommonConfig(
                    model_name_for_tokenizer=model, renderer_name=RENDERER, max_length=160, batch_size=128
                ),
            ),
            learning_rate=3e-4,
            lora_rank=0,
            base_url=url,
            eval_every=0,
            save_every=10,
            submit_ahead=2,
        )
    )
)
losses = [line["train_mean_nll"] for line in metrics("supervised") if "train_mean_nll" in line]
print(f"supervised: mean negative logprob {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps")
assert losses[-1] < losses[0] * 0.8, losses


def reinforce(log, loss, steps):
    asyncio.run(
        math_rl.cli_main(
            math_rl.CLIConfig(
                model_name=model,
                renderer_name=RENDERER,
                env="arithmetic",
                groups_per_batch=16,
                group_size=8,
                max_tokens=6,
                learning_rate=3e-4,
                lora_rank=0,
                eval_every=0,
                save_every=10,
                max_steps=steps,
                loss_fn=loss,
                log_path=str(logs / log),
                base_url=url,
                behavior_if_log_dir_exists="delete",
            )
        )
    )


class Digits(arithmetic_env.ArithmeticDataset):
    """The recipe's tasks, with numbers that a very small model can learn to add."""

    def _make_env_group_builder(self, generator):
        class Small:
            def randint(self, _low, _high):
                return generator.randint(0, 10)

        return super()._make_env_group_builder(Small())


# Reinforcement learning on sums, from the base that mostly does not want to: by a public loss, and by the recipe's own default, for
# which the server computes a stand-in.
arithmetic_env.ArithmeticDataset = Digits
for loss in ("importance_sampling", "stable_reinforce"):
    reinforce(loss, loss, 50)
    rewards = [line["env/all/reward/total"] for line in metrics(loss) if "env/all/reward/total" in line]
    first, last = (sum(part) / len(part) for part in (rewards[:4], rewards[-4:]))
    print(f"arithmetic by {loss}: mean reward of the first four steps {first:.2f}, of the last four of {len(rewards)} {last:.2f}")
    assert last > first + 0.2, rewards
