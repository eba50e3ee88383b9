"""The calls by their names: from headers and tensors to the learner, and back."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import peft
import safetensors.torch
import torch
import transformers

from fulgurite.learner.datums import Datums
from fulgurite.learner.learner import Learner, is_out_of_memory
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.policy import Lora, Policy
from fulgurite.learner.protocol import Fault, LearnerError
from fulgurite.learner.ranks import Ranks

Reply = tuple[dict[str, Any], bytes]

NAMES = (
    "forward",
    "entropies",
    "keep_reference",
    "forward_reference",
    "forward_backward",
    "forward_backward_with_entropy",
    "forward_backward_comparisons",
    "set_sampling_temperature",
    "optimizer_step",
    "save_checkpoint",
    "load_checkpoint",
    "save_weights",
    "release_gpu",
)


class Calls:
    """A learner behind its calls."""

    def __init__(self, header: dict[str, Any]) -> None:
        """Open the model that the first call names."""
        transformers.utils.logging.disable_progress_bar()
        on_cpu = header["device"] == "cpu" or not torch.cuda.is_available()
        torch.use_deterministic_algorithms(on_cpu)
        lora = None if header["lora"] is None else Lora(**header["lora"])
        try:
            shares_gpu = header.get("shares_gpu", False)
            model = Path(header["model"])
            device = header["device"]
            ranks = Ranks()
            if "rank" in header:
                ranks = Ranks.join(header["rank"], header["processes"], header["store"], device)
            policy = Policy(
                model,
                lora,
                header["seed"],
                device,
                header["dtype"],
                shares_gpu=shares_gpu,
                ranks=ranks,
                head=header.get("head", "as_written"),
            )
            self._learner = Learner(policy, header["max_tokens_per_pass"], header["gradient_checkpointing"])
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or is_out_of_memory(error)):
                raise
            first = str(error).splitlines()[0] if str(error) else "MemoryError"
            advice = 'set [torch] dtype = "bfloat16", or [[models]] lora_rank for an adapter'
            message = f"out of memory while the model in {header['model']} was opened: {first}; {advice}"
            raise LearnerError(Fault.CONFIGURATION, message) from error

    def opened(self) -> dict[str, Any]:
        """Return what there is to know of the learner."""
        policy = self._learner.policy
        return {
            "python": sys.version.split()[0],
            "torch": str(torch.__version__),
            "transformers": transformers.__version__,
            "peft": peft.__version__,
            "device": torch.cuda.get_device_name() if policy.device.type == "cuda" else "cpu",
            "dtype": "nf4" if policy.quantized else str(policy.dtype).removeprefix("torch."),
            "attention": policy.model.config._attn_implementation,
            "packs": policy.packs,
            "shares_prefixes": policy.sharing.attention or f"no: {policy.sharing.cause}",
            "gradient_checkpointing": self._learner.checkpoints_gradients,
            "trained": sum(it.numel() for it in policy.trained.values()),
        }

    def answer(self, header: dict[str, Any], body: bytearray) -> Reply:
        """Answer a call."""
        name = header["call"]
        if name not in NAMES:
            raise LearnerError(Fault.INVALID_REQUEST, f"there is no call `{name}`")
        tensors = safetensors.torch.load(bytes(body)) if body else {}
        if name in ("save_checkpoint", "load_checkpoint", "save_weights"):
            getattr(self._learner, name)(Path(header["directory"]))
            return {}, b""
        if name == "set_sampling_temperature":
            self._learner.set_sampling_temperature(header["temperature"])
            return {}, b""
        if name == "release_gpu":
            self._learner.release_gpu()
            return {}, b""
        if name == "keep_reference":
            self._learner.keep_reference()
            return {}, b""
        if name == "optimizer_step":
            guard = header.get("guard")
            if guard is not None:
                greatest = guard["greatest_norm"]
                skipped = self._learner.skip_spike(math.inf if greatest is None else greatest)
                if skipped is not None:
                    finite = skipped if math.isfinite(skipped) else None
                    return {"skipped": True, "gradient_norm": finite}, b""
            norm, metrics = self._learner.optimizer_step(header["parameters"])
            return {"gradient_norm": norm, "metrics": metrics}, b""
        return {}, safetensors.torch.save(self._pass(name, header, tensors))

    def _pass(self, name: str, header: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
        data = Datums.read(tensors)
        if name == "forward":
            return self._learner.forward(data)
        if name == "entropies":
            return self._learner.entropies(data)
        if name == "forward_reference":
            return self._learner.forward_reference(data)
        if name == "forward_backward":
            return self._learner.forward_backward(data, TokenLoss.read(header["loss"]))
        if name == "forward_backward_with_entropy":
            return self._learner.forward_backward(data, TokenLoss.read(header["loss"]), header["entropy_weight"])
        ranges = tensors["comparisons"].reshape(-1, 4).tolist()
        references = tensors["references"].reshape(-1, 2)
        compared = Comparisons(header["loss"], header["scale"], ranges, references)
        return self._learner.forward_backward_comparisons(data, compared)
