"""The calls of the trainer."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from fulgurite.learner.datums import Datums, Inputs
from fulgurite.learner.files import (
    FIRST_MOMENT,
    FORMER_OPTIMIZER,
    OPTIMIZER,
    SECOND_MOMENT,
    STEPS,
    new_directory,
    read_steps,
    read_tensors,
)
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.passes import Pass, Slopes, batches
from fulgurite.learner.policy import Policy
from fulgurite.learner.protocol import Fault, LearnerError
from fulgurite.learner.ranks import local, spread_like, whole
from fulgurite.learner.shared import LEAST_SHARE, Batch, in_order, sequences_of


@dataclass
class Pending:
    """Losses, logprobs and entropies of the passes of a call, on the device until all are computed."""

    places: list[Tensor]
    losses: list[Tensor]
    logprobs: list[Tensor]
    entropies: list[Tensor]

    def add(self, one: Pass, loss: Tensor, logprobs: Tensor, entropies: Tensor) -> None:
        """Take a pass's."""
        self.places.append(one.slots.place)
        self.losses.append(loss.sum())
        self.logprobs.append(logprobs)
        self.entropies.append(entropies)

    def tensors(self, slots: int) -> dict[str, Tensor]:
        """Return them as they are sent: by the call's slots, 0 where nothing was computed."""
        total = torch.stack(self.losses).sum() if self.losses else torch.zeros((), dtype=torch.float64)
        found = {"loss_sum": total.double().cpu().reshape(1)}
        for name, parts in (("logprobs", self.logprobs), ("entropies", self.entropies)):
            found[name] = _spread(slots, self.places, parts)
        return found


def _spread(slots: int, places: list[Tensor], parts: list[Tensor]) -> Tensor:
    whole = torch.zeros(slots, dtype=torch.float32)
    if parts:
        whole[torch.cat(places)] = torch.cat(parts).cpu()
    return whole


class Learner:
    """A policy with its optimizer."""

    def __init__(self, policy: Policy, max_tokens_per_pass: int, gradient_checkpointing: str) -> None:
        """Begin with nothing accumulated."""
        self.policy, self._limit = policy, max_tokens_per_pass
        self._ranks = policy.ranks
        self._parameters = list(policy.trained.values())
        self._shared_tokens = 0
        self._sampling_temperature = 1.0
        self._norm: float | None = None
        # One kernel has tensors that are spread over processes, or such that are not.
        groups = [[it for it in self._parameters if isinstance(it, DTensor) == spread] for spread in (False, True)]
        of_kinds = [{"params": group} for group in groups if group]
        self._optimizer = torch.optim.AdamW(of_kinds, lr=0.0, fused=True)
        self.checkpoints_gradients = gradient_checkpointing == "on" or (
            gradient_checkpointing == "auto" and self._ranks.any(self._activations_are_large())
        )
        if self.checkpoints_gradients:
            policy.model.gradient_checkpointing_enable({"use_reentrant": False})
            policy.model.train()

    def _activations_are_large(self) -> bool:
        """Whether what the backward pass needs of the largest pass would take more than half of the free memory."""
        config = self.policy.model.config.get_text_config()
        width = 16 * config.hidden_size + 4 * getattr(config, "intermediate_size", 4 * config.hidden_size)
        need = self._limit * config.num_hidden_layers * width * self.policy.dtype.itemsize
        return bool(need > free_memory(self.policy.device) // 2)

    def _move(self, device: torch.device) -> None:
        """Have weights, gradients and moments on a device."""
        if self._parameters[0].device.type == device.type:
            return
        self.policy.model.to(device)
        for state in self._optimizer.state.values():
            for name, it in state.items():
                state[name] = it.to(device)
        if device.type == "cpu" and self.policy.device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()

    def release_gpu(self) -> None:
        """Leave the GPU to others until the next pass."""
        self._move(torch.device("cpu"))

    def set_sampling_temperature(self, temperature: float) -> None:
        """Take tokens with a sampler's logprobs for sampled at this temperature from now on."""
        if not (math.isfinite(temperature) and temperature > 0):
            message = f"the temperature is {temperature}, but must be above 0"
            raise LearnerError(Fault.INVALID_REQUEST, message)
        self._sampling_temperature = temperature

    def _temperature(self, data: Datums) -> float:
        """Return what the logits of a call's datums are divided by."""
        sampled = bool(data.inputs) and all(inputs == Inputs.POLICY for inputs in data.inputs)
        return self._sampling_temperature if sampled else 1.0

    def forward(self, data: Datums) -> dict[str, Tensor]:
        """Return the logprob of each target."""
        return {"logprobs": self._score(data, trained_only=False)}

    def entropies(self, data: Datums) -> dict[str, Tensor]:
        """Return the entropy that predicts each trained target."""
        return {"entropies": self._score(data, trained_only=True, of=Pass.entropies)}

    def keep_reference(self) -> None:
        """Keep the weights as they are now."""
        self.policy.keep_reference()

    def forward_reference(self, data: Datums) -> dict[str, Tensor]:
        """Return the logprob of each trained target under the weights that were kept."""
        self._move(self.policy.device)
        with self.policy.reference():
            return {"logprobs": self._score(data, trained_only=True)}

    def _score(self, data: Datums, *, trained_only: bool, of: Callable[[Pass, Tensor], Tensor] | None = None) -> Tensor:
        self._check(data)
        self._move(self.policy.device)
        measure = of or Pass.score
        places, logprobs = [], []
        with torch.no_grad(), self.policy.computing():
            for batch in self._batches([[index] for index in range(len(data))], data, trained_only=trained_only):
                if batch is None:
                    self.policy.go_along(backward=False)
                    continue
                one = Pass(self.policy, data, batch, self._temperature(data), trained_only=trained_only)
                logprobs.append(self._within_memory(one, lambda one: measure(one, one.hidden())))
                places.append(one.slots.place)
        return _spread(len(data.targets), places, logprobs)

    def forward_backward(self, data: Datums, loss: TokenLoss, entropy_weight: float = 0.0) -> dict[str, Tensor]:
        """Add a loss's gradient to what has accumulated, less so much of the entropy that predicts each trained target."""
        self._check(data)
        data.check_inputs(loss.name)
        if self.policy.has_score:
            message = "the model is a reward model: its head is a score, and losses of tokens are not for it"
            raise LearnerError(Fault.INVALID_REQUEST, message)

        def learn(one: Pass) -> tuple[Tensor, Tensor, Tensor]:
            hidden, slots = one.hidden(), one.slots
            if loss.needs_all_logprobs:
                with torch.no_grad():
                    logprobs = one.score(hidden)
                    known = loss.of_sequences(
                        logprobs, slots.sampler_logprob, slots.advantage, slots.datum, len(one.indices)
                    )
                return one.learn(hidden, lambda part, _: (known[0][part], known[1][part]), entropy_weight)

            def of_tokens(part: slice, logprobs: Tensor) -> tuple[Tensor, Tensor]:
                return loss.of_tokens(logprobs, slots.weight[part], slots.sampler_logprob[part], slots.advantage[part])

            return one.learn(hidden, of_tokens, entropy_weight)

        return self._learn(data, [[index] for index in range(len(data))], learn)

    def forward_backward_comparisons(self, data: Datums, comparisons: Comparisons) -> dict[str, Tensor]:
        """Add the gradient of a loss of whole answers. The answers of a comparison are in one pass."""
        self._check(data)
        for index, inputs in enumerate(data.inputs):
            if inputs != Inputs.WEIGHTS:
                message = f"datum {index} of the comparisons carries no weights"
                raise LearnerError(Fault.INVALID_REQUEST, message)
        if (comparisons.loss["name"] == "bradley_terry") != self.policy.has_score:
            message = "a loss of scores is for a model whose head is a score, and any other for one that predicts tokens"
            raise LearnerError(Fault.INVALID_REQUEST, message)
        groups = [list(comparisons.datums(place)) for place in range(len(comparisons.ranges))]
        place_of = {index: place for place, group in enumerate(groups) for index in group}

        def learn(one: Pass) -> tuple[Tensor, Tensor, Tensor]:
            hidden, slots = one.hidden(), one.slots
            places = sorted({place_of[index] for index in one.indices})
            # Of each datum of the pass, the answer that it is of: chosen and rejected ones by turns.
            sides = []
            for index in one.indices:
                place = place_of[index]
                rejected = comparisons.ranges[place][2]
                sides.append(2 * places.index(place) + int(rejected >= 0 and index >= rejected))
            answer = torch.tensor(sides, device=hidden.device)[slots.datum]
            with torch.no_grad():
                weights = slots.weight.double()
                zeros = torch.zeros(2 * len(places), dtype=torch.float64, device=hidden.device)
                logprob = zeros.index_add(0, answer, weights * one.score(hidden).double())
                weight = zeros.index_add(0, answer, weights)
                value, slope = comparisons.cost(places, logprob.reshape(-1, 2), weight.reshape(-1, 2))
                slope = (weights * slope.reshape(-1)[answer]).float()
            slopes: Slopes = lambda part, _: (zeros.new_zeros(0), slope[part])  # noqa: E731
            _, logprobs, entropies = one.learn(hidden, slopes)
            return value, logprobs, entropies

        return self._learn(data, groups, learn)

    def _learn(
        self, data: Datums, groups: list[list[int]], learn: Callable[[Pass], tuple[Tensor, Tensor, Tensor]]
    ) -> dict[str, Tensor]:
        self._move(self.policy.device)
        pending = Pending([], [], [], [])
        try:
            for batch in self._batches(groups, data, trained_only=True):
                with self.policy.computing():
                    if batch is None:
                        self.policy.go_along(backward=True)
                        continue
                    one = Pass(self.policy, data, batch, self._temperature(data), trained_only=True)
                    pending.add(one, *self._within_memory(one, learn))
            return pending.tensors(len(data.targets))
        except BaseException:
            # Half of a call's gradient is no gradient.
            self._drop_gradient()
            raise

    def _batches(self, groups: list[list[int]], data: Datums, *, trained_only: bool) -> list[Batch | None]:
        """Return the passes of this process; None where it goes along with others'."""
        ordered = self._in_order(groups, data)
        shares = self._is_shared(ordered, data)
        groups = ordered if shares else groups
        limit = self._limit
        if self._ranks.size > 1:  # a call that fits into one pass is divided all the same
            whole = sum(it.positions for it in batches(groups, data, sum(data.positions), packs=True, shares=shares))
            limit = min(limit, math.ceil(whole / self._ranks.size))
        whole_call = batches(groups, data, limit, packs=self.policy.packs, shares=shares)
        computed = [it for it in whole_call if not trained_only or any(data.is_trained(index) for index in it.indices)]
        self._shared_tokens += sum(sum(data.positions[index] for index in it.indices) - it.positions for it in computed)
        return self._ranks.share(computed)

    def _in_order(self, groups: list[list[int]], data: Datums) -> list[list[int]]:
        """Put datums that begin alike next to each other. Answers that are compared stay as they are."""
        if self.policy.sharing.attention is None or any(len(group) > 1 for group in groups):
            return groups
        indices = [index for group in groups for index in group]
        return [[indices[place]] for place in in_order(sequences_of(data, indices))]

    def _is_shared(self, groups: list[list[int]], data: Datums) -> bool:
        """Whether so many of a call's tokens are beginnings that it is computed by shared rows."""
        if self.policy.sharing.attention is None:
            return False
        computed = batches(groups, data, self._limit, packs=self.policy.packs, shares=True)
        whole = sum(data.positions)
        return whole - sum(it.positions for it in computed) >= LEAST_SHARE * whole > 0

    def _within_memory(self, one: Pass, work: Callable[[Pass], Any]) -> Any:
        try:
            return work(one)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            advice = "lower [torch] max_tokens_per_pass"
            if len(one.indices) == 1:
                advice = (
                    "a sequence is never cut: lower what a rollout may sample, or the greatest length that is trained"
                )
            if not self.checkpoints_gradients:
                advice += ', or set [torch] gradient_checkpointing = "on"'
            if self.policy.device.type == "cuda":
                advice += ", or leave more of the GPU to the learner (gpu_memory_utilization of vLLM)"
            size = f"a pass of {one.positions} tokens in {len(one.indices)} sequences (max_tokens_per_pass = {self._limit})"
            message = f"out of memory on {self.policy.device.type} in {size}: {str(error).splitlines()[0]}; {advice}"
        gc.collect()
        if self.policy.device.type == "cuda":
            torch.cuda.empty_cache()
        raise LearnerError(Fault.CONFIGURATION, message)

    def _check(self, data: Datums) -> None:
        data.check(self.policy.vocabulary_size, self.policy.context_length)

    def _drop_gradient(self) -> None:
        self._norm = None
        for parameter in self._parameters:
            parameter.grad = None

    def _gather(self) -> float:
        """Add up the gradient of all processes, once for a step, and return its norm."""
        if self._norm is not None:
            return self._norm
        self._move(self.policy.device)
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._ranks.sum_gradients(self._parameters)
        self._norm = self._ranks.norm([parameter.grad for parameter in self._parameters])
        return self._norm

    def skip_spike(self, greatest: float) -> float | None:
        """Drop a gradient whose norm is above the greatest or no number, and return the norm; None if it may be applied."""
        norm = self._gather()
        if math.isfinite(norm) and norm <= greatest:
            return None
        self._drop_gradient()
        return norm

    def optimizer_step(self, parameters: dict[str, float]) -> tuple[float, dict[str, float]]:
        """Apply the accumulated gradient and clear it; return its norm before clipping, and metrics."""
        _check_parameters(parameters)
        norm = self._gather()
        gradients = [parameter.grad for parameter in self._parameters]
        if not math.isfinite(norm):
            self._drop_gradient()
            unchanged = "the weights are unchanged and the gradient is dropped"
            raise LearnerError(Fault.INTERNAL, f"the gradient is not finite (its norm is {norm}); {unchanged}")
        clip = parameters["gradient_clip_norm"]
        if 0 < clip < norm:
            torch._foreach_mul_([local(it) for it in gradients], clip / norm)
        for group in self._optimizer.param_groups:
            group["lr"], group["eps"] = parameters["learning_rate"], parameters["epsilon"]
            group["betas"] = (parameters["beta1"], parameters["beta2"])
            group["weight_decay"] = parameters["weight_decay"]
        self._optimizer.step()
        self._drop_gradient()
        return norm, {**self._memory_metrics(), **self._sharing_metrics()}

    def _memory_metrics(self) -> dict[str, float]:
        if self.policy.device.type != "cuda":
            return {}
        peak = float(torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        return {"learner_peak_memory_bytes": peak}

    def _sharing_metrics(self) -> dict[str, float]:
        """Return how many tokens of the passes since the last step were not computed again for each sequence."""
        shared, self._shared_tokens = self._shared_tokens, 0
        return {"learner_shared_tokens": float(shared)} if shared else {}

    def save_checkpoint(self, directory: Path) -> None:
        """Write what is trained, and the optimizer's state."""
        state = self._optimizer.state
        steps = int(state[self._parameters[0]]["step"]) if state else 0
        tensors = {STEPS: torch.tensor(steps, dtype=torch.uint64)}
        if steps > 0:
            for name, it in self.policy.trained.items():
                tensors[FIRST_MOMENT + name] = whole(state[it]["exp_avg"])
                tensors[SECOND_MOMENT + name] = whole(state[it]["exp_avg_sq"])
        self._write(directory, tensors)

    def load_checkpoint(self, directory: Path) -> None:
        """Go on from what was saved, once all of it is read."""
        tensors = self.policy.read(directory)
        former = directory / FORMER_OPTIMIZER
        path = former if former.exists() else directory / OPTIMIZER
        steps = read_steps(path)
        shapes = {name: it.shape for name, it in self.policy.trained.items()}
        moments = {}
        if steps > 0:
            moments = {it: read_tensors(directory, path.name, shapes, it) for it in (FIRST_MOMENT, SECOND_MOMENT)}
        self.policy.take(tensors)
        self._drop_gradient()
        self._optimizer.state.clear()
        for name, it in self.policy.trained.items() if steps > 0 else ():
            self._optimizer.state[it] = {
                "step": torch.tensor(float(steps), device=it.device),
                "exp_avg": spread_like(moments[FIRST_MOMENT][name], it),
                "exp_avg_sq": spread_like(moments[SECOND_MOMENT][name], it),
            }

    def save_weights(self, directory: Path) -> None:
        """Write what is trained."""
        self._write(directory, None)

    def _write(self, directory: Path, optimizer: dict[str, Tensor] | None) -> None:
        weights = self.policy.whole_weights()
        if self._ranks.rank > 0:  # the first process writes for all
            return
        with new_directory(directory) as new:
            self.policy.write(new, weights)
            if optimizer is not None:
                new.write_tensors(OPTIMIZER, optimizer)


def _check_parameters(parameters: dict[str, float]) -> None:
    """Refuse parameters that would put nonsense into the weights."""
    for name, value in parameters.items():
        sound = math.isfinite(value) and value >= 0
        if name in ("beta1", "beta2"):
            sound = sound and value < 1
        if name == "epsilon":
            sound = sound and value > 0
        if not sound:
            raise LearnerError(Fault.INVALID_REQUEST, f"optimizer: {name} is {value}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or in the machine's memory."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or "not enough memory" in str(error)


def free_memory(device: torch.device) -> int:
    """Return how many bytes are free, as far as that is known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return 8 << 30
