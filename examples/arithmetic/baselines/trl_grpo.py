"""The same model, tasks and reward by TRL's GRPO, which nothing of Fulgurite's has a part in:

    python3 -m venv ../../target/trl && ../../target/trl/bin/pip install trl==1.16.0 torch
    ../../target/trl/bin/python baselines/trl_grpo.py arithmetic models/adder --seed 1 > curves/trl-seed-1.jsonl

Prints a line for each scoring of the held-out tasks, as measure.py does: what had been sampled until then, and the
seconds that the process had spent on a processor since its start. Everything that is not said in `settings` is TRL's
default. The task `hello` is that of the example hello, graded by its own grader.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import datasets
import sums
import torch
import transformers
import trl


class Arithmetic:
    train, held_out, samples, every = sums.TRAIN, sums.HELD_OUT, 2, 5
    groups, group_size, max_tokens = 16, 8, 16

    @staticmethod
    def question(task):
        return sums.question(*sums.PAIRS[task])

    @staticmethod
    def reward(task, reply, ended):
        return sums.grade(task, reply, ended)["reward"]


class Hello:
    train, held_out, samples, every = range(0, 1000), range(1000, 1024), 4, 1
    groups, group_size, max_tokens = 16, 8, 32

    @staticmethod
    def question(task):
        return f"Let's play a game. Say you are {task}."

    @staticmethod
    def reward(task, reply, ended):
        grader = HERE.parents[2] / "target/debug/hello-grader"
        transcript = reply + ("" if ended else "\n[finish_reason: length]") + "\n"
        environment = os.environ | {"FULGURITE_TASK": str(task)}
        graded = subprocess.run([grader], input=transcript, env=environment, capture_output=True, text=True, check=True)
        return json.loads(graded.stdout)["reward"]


def cpu_seconds():
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


class Rewards:
    """TRL's reward function, which counts what was sampled."""

    def __init__(self, tasks, tokenizer):
        self.tasks, self.tokenizer, self.sampled = tasks, tokenizer, 0
        self.__name__ = "reward"

    def of(self, task, tokens):
        """The reward of a reply's tokens, the last of which is the one that ends it unless it was cut off."""
        ended = self.tokenizer.eos_token_id in tokens
        tokens = tokens[: tokens.index(self.tokenizer.eos_token_id)] if ended else tokens
        return self.tasks.reward(task, self.tokenizer.decode(tokens), ended)

    def __call__(self, completion_ids, task, **_):
        self.sampled += sum(map(len, completion_ids))
        return [self.of(*each) for each in zip(task, completion_ids)]


class Scoring(transformers.TrainerCallback):
    """Samples the held-out tasks at temperature 1 every few updates, and at the end."""

    def __init__(self, rewards):
        self.rewards, self.scored = rewards, None

    def on_step_begin(self, _, state, control, model=None, **__):
        if state.global_step % self.rewards.tasks.every == 0:
            self.score(state.global_step, model)

    def on_train_end(self, _, state, control, model=None, **__):
        if state.global_step != self.scored:
            self.score(state.global_step, model)

    @torch.no_grad()
    def score(self, step, model):
        self.scored, tokenizer, tasks = step, self.rewards.tokenizer, self.rewards.tasks
        played = [task for task in tasks.held_out for _ in range(tasks.samples)]
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": tasks.question(task)}], tokenize=False, add_generation_prompt=True
            )
            for task in played
        ]
        prompts = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        model.eval()
        replies = model.generate(
            **prompts, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=tasks.max_tokens,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )[:, prompts.input_ids.shape[1] :].tolist()  # fmt: skip
        model.train()
        earned = [self.rewards.of(*each) for each in zip(played, replies)]
        line = {"step": step, "sampled_tokens": self.rewards.sampled, "cpu_seconds": round(cpu_seconds(), 2)}
        print(json.dumps(line | {"held_out": sum(earned) / len(earned)}), flush=True)


def settings(tasks, options):
    return trl.GRPOConfig(
        output_dir=options.directory, seed=options.seed, max_steps=options.max_steps, use_cpu=True, bf16=False,
        learning_rate=options.learning_rate, lr_scheduler_type="constant", beta=0.0, temperature=1.0,
        per_device_train_batch_size=tasks.groups * tasks.group_size, num_generations=tasks.group_size,
        max_completion_length=tasks.max_tokens, gradient_checkpointing=False, save_strategy="no", report_to=[],
        logging_steps=1000, disable_tqdm=True,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", choices=["arithmetic", "hello"])
    parser.add_argument("model", help="directory of the model that the training begins with")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--directory", default="runs/trl", help="where TRL may write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tasks = {"arithmetic": Arithmetic, "hello": Hello}[options.tasks]
    order = list(tasks.train)
    random.Random(options.seed).shuffle(order)
    rows = [{"prompt": [{"role": "user", "content": tasks.question(task)}], "task": task} for task in order]
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    rewards = Rewards(tasks, tokenizer)
    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        processing_class=tokenizer,
        reward_funcs=rewards,
        args=settings(tasks, options),
        train_dataset=datasets.Dataset.from_list(rows),
        callbacks=[Scoring(rewards)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()


if __name__ == "__main__":
    main()
