"""The trained model: as transformers opens it, with PEFT's adapter beside it unless all weights are trained."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch import Tensor

from fulgurite.learner.files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    WEIGHTS,
    NewDirectory,
    read_json,
    read_tensors,
)
from fulgurite.learner.protocol import Fault, LearnerError
from fulgurite.learner.ranks import Ranks, local, spread_like, whole
from fulgurite.learner.shared import SharedRows, block_mask, visible, why_not

_USUAL_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_LARGEST_DIFFERENCE = {torch.float32: 1e-2, torch.bfloat16: 1.0}


@dataclass
class Lora:
    """An adapter that is to be trained."""

    rank: int
    alpha: float
    modules: list[str] | None
    """Names of modules; where there are none, those that are usual and that the model has."""


@dataclass
class Sharing:
    """Whether rows that several sequences begin with are computed once."""

    attention: str | None
    """By which attention of transformers they are; None where they are not."""
    cause: str | None
    """Why they are not."""


class Policy:
    """Weights, what of them is trained, and what has been kept to be held against."""

    def __init__(
        self,
        path: Path,
        lora: Lora | None,
        seed: int,
        device: str,
        dtype: str,
        *,
        shares_gpu: bool = False,
        ranks: Ranks | None = None,
        head: str = "as_written",
    ) -> None:
        """Open a model's directory; on the CPU where the GPU is another's until the first pass.

        With the head "score" the model gives a score in the place of logits, which is 0 at first where the directory has none.
        """
        self.path, self.lora, self._shares_gpu = path, lora, shares_gpu
        self.ranks = ranks or Ranks()
        self.device = _device(device)
        usual = "bfloat16" if self.device.type == "cuda" else "float32"
        self.quantized = dtype == "nf4"
        if self.quantized and lora is None:
            message = '[torch] dtype "nf4" is for the weights beside an adapter: set [[models]] lora_rank'
            raise LearnerError(Fault.CONFIGURATION, message)
        self.dtype = torch.bfloat16 if self.quantized else _DTYPES[usual if dtype == "auto" else dtype]
        torch.manual_seed(seed)
        written = _has_score(path)
        self.has_score = written or head == "score"
        if self.has_score and lora is not None:
            raise LearnerError(Fault.CONFIGURATION, "a score is trained with all weights: leave [[models]] lora_rank out")
        self.model = self._open()
        if self.has_score and not written:
            with torch.no_grad():
                self.model.score.weight.zero_()
        self.decoder: Any = getattr(self.model, self.model.base_model_prefix)
        config = self.model.config.get_text_config()
        self.vocabulary_size: int = self.model.get_input_embeddings().weight.shape[0]
        if not self.has_score:
            self.vocabulary_size = self.model.get_output_embeddings().weight.shape[0]
        self.context_length: int = config.max_position_embeddings
        self.softcap: float | None = getattr(config, "final_logit_softcapping", None)
        for module in self.model.modules():  # nothing random: a step follows from its data
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if lora is None:
            self.modules: list[str] = []
        else:
            self._add_adapter(lora)
        self._spread_over_processes(config.num_hidden_layers)
        self.head: Any = self.model.score if self.has_score else self.model.get_output_embeddings()
        self._trained = self._trained_by_name()
        self._reference: dict[str, Tensor] | None = None
        self.packs = True
        # Kernels of bitsandbytes for the CPU that are for evaluation have no gradient; nothing else depends on the mode here.
        self.model.train(self.quantized)
        self._usual_attention: str = config._attn_implementation
        self.sharing = Sharing(None, "not tried")
        self._check_head()
        self.sharing = self._try_sharing(config)

    def _open(self) -> Any:
        # What is trained, and the moments of it, are in float32; products of all weights are then computed in `dtype`.
        dtype = torch.float32 if self.lora is None else self.dtype
        try:
            config = transformers.AutoConfig.from_pretrained(self.path, local_files_only=True, attention_dropout=0.0)
            model = self._load(config, dtype)
        except (ValueError, KeyError, OSError, ImportError, AttributeError) as error:
            message = f"transformers {transformers.__version__} cannot open the model in {self.path}: {_short(error)}"
            raise LearnerError(Fault.CONFIGURATION, message) from error
        # Where layers are spread over processes, no GPU need hold the whole.
        on_cpu = self._shares_gpu or self.ranks.size > 1
        return model if self.quantized else model.to("cpu" if on_cpu else self.device)

    def _spread_over_processes(self, layers: int) -> None:
        if self.ranks.size == 1 or self.quantized:  # weights of 4 bits stand whole at each process
            return
        # An adapter is small, and stands whole at each of them.
        apart = [] if self.lora is None else [it for it in self.model.parameters() if it.requires_grad]
        self.ranks.shard(self.decoder, layers, apart)
        self.model.to(self.device)

    def _load(self, config: Any, dtype: torch.dtype) -> Any:
        options = {"config": config, "dtype": dtype, "local_files_only": True}
        if self.quantized:
            options |= {"quantization_config": _quantization(dtype), "device_map": {"": self.device}}
        load = transformers.AutoModelForCausalLM.from_pretrained
        if self.has_score:
            load = transformers.AutoModelForSequenceClassification.from_pretrained
            config.num_labels = 1
        try:
            return load(self.path, attn_implementation=self._attention(), **options)
        except ValueError as error:
            if "attention implementation" not in str(error):
                raise
            return load(self.path, attn_implementation="eager", **options)

    def _attention(self) -> str:
        if self.device.type == "cuda" and self.dtype == torch.bfloat16 and not self._shares_gpu:
            from transformers.utils import is_flash_attn_2_available

            if is_flash_attn_2_available():
                return "flash_attention_2"
        return "sdpa"

    def _add_adapter(self, lora: Lora) -> None:
        linear = {name.rsplit(".", 1)[-1] for name, module in self.model.named_modules() if _is_linear(module)}
        modules = lora.modules or [name for name in _USUAL_MODULES if name in linear]
        unknown = [name for name in modules if name not in linear]
        if unknown or not modules:
            what = f"no module {unknown[0]}" if unknown else "none of the usual modules"
            message = f"the model in {self.path} has {what} for an adapter; there is {', '.join(sorted(linear))}"
            raise LearnerError(Fault.CONFIGURATION, f"{message} ([[models]] lora_modules)")
        self.modules = sorted(modules)
        config = LoraConfig(
            task_type="CAUSAL_LM", r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=self.modules
        )
        with warnings.catch_warnings():
            # Of a head that is the embedding: the adapter stands beside the head alone, and nothing is merged.
            warnings.simplefilter("ignore")
            self._adapted = get_peft_model(self.model, config)

    def _trained_by_name(self) -> dict[str, torch.nn.Parameter]:
        if self.lora is None:
            return dict(self.model.named_parameters())
        named = self._adapted.named_parameters()
        return {name.replace(".default.", "."): it for name, it in named if it.requires_grad}

    @property
    def trained(self) -> dict[str, torch.nn.Parameter]:
        """What is trained, by the names that checkpoints have."""
        return self._trained

    def computing(self) -> AbstractContextManager[Any]:
        """Return the context of passes, in which products have their element type."""
        if self.lora is None and self.dtype != torch.float32:
            computing: AbstractContextManager[Any] = torch.autocast(self.device.type, dtype=self.dtype)
            return computing
        return nullcontext()

    def hidden(self, tokens: Tensor, positions: Tensor, ends: Tensor | None = None) -> Tensor:
        """Return the decoder's output for rows that are one after another: where positions begin anew, another row begins.

        With `ends` each row goes on from those before it whose end is behind it. The pass back over it comes before the next.
        """
        inputs = {"input_ids": tokens[None], "position_ids": positions[None], "use_cache": False}
        attention = self._usual_attention
        if ends is not None and self.sharing.attention is not None:
            attention = self.sharing.attention
            inputs["attention_mask"] = block_mask(ends) if attention == "flex_attention" else visible(ends)
        self.model.config.get_text_config()._attn_implementation = attention
        return self.decoder(**inputs).last_hidden_state[0]

    def go_along(self, *, backward: bool) -> None:
        """Take part in a pass of other processes with a row that changes nothing."""
        nothing = torch.zeros(1, dtype=torch.long, device=self.device)
        found = self.hidden(nothing, nothing)
        if backward and found.requires_grad:
            (found * 0).sum().backward()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of some outputs of the decoder, in float32; of a score, the one number."""
        logits = self.head(hidden).float()
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits

    def _outputs(self, hidden: Tensor) -> Tensor:
        """Return what passes are compared by: logprobs of all tokens, or the score."""
        logits = self.logits(hidden)
        return logits if self.has_score else logits.log_softmax(-1)

    def _check_head(self) -> None:
        """Hold passes as they are computed here against the model's own, and see whether it tells packed rows apart."""
        ids = torch.arange(7, device=self.head.weight.device) % self.vocabulary_size
        places = torch.arange(len(ids), device=ids.device)
        with torch.no_grad(), self.computing():
            own = self._outputs(self.hidden(ids, places))
            whole = self.model(input_ids=ids[None], use_cache=False).logits[0].float()
            # A score is of the last token alone.
            own, whole = (own[-1], whole) if self.has_score else (own, whole.log_softmax(-1))
            row = self.hidden(ids.flip(0).repeat(2), places.repeat(2))[len(ids) :]
            alone = self.hidden(ids.flip(0), places)
            packed = self._outputs(row)
            apart = self._outputs(alone)
        limit = _LARGEST_DIFFERENCE[self.dtype]
        if not float((own - whole).abs().max()) < limit:
            message = f"the head of {type(self.model).__name__} computes something that the torch learner does not"
            raise LearnerError(Fault.CONFIGURATION, message)
        self.packs = float((packed - apart).abs().max()) < limit

    def _try_sharing(self, config: Any) -> Sharing:
        """See by which attention rows of several sequences compute what each of them does alone, if by any."""
        if (cause := why_not(config)) is not None:
            return Sharing(None, cause)
        if not self.packs:
            return Sharing(None, "packed rows are mixed up")
        if self._usual_attention not in ("sdpa", "flash_attention_2"):
            return Sharing(None, f"attention of {self._usual_attention}")
        # A kernel that fails in the midst of a pass that several processes go through leaves them out of step.
        has_kernels = self.device.type == "cuda" and not self._shares_gpu and self.ranks.size == 1
        for attention in ("flex_attention", "sdpa") if has_kernels else ("sdpa",):
            if not self.ranks.any(not self._shares_by(attention)):
                return Sharing(attention, None)
        return Sharing(None, "shared rows are mixed up")

    def _shares_by(self, attention: str) -> bool:
        ids = torch.arange(12) * 5 % self.vocabulary_size
        sequences = [ids[:9], torch.cat([ids[:4], ids[6:]]), ids[3:8]]
        rows = SharedRows.of(sequences)
        device = self.head.weight.device
        before, self.sharing = self.sharing, Sharing(attention, None)
        try:
            with torch.no_grad(), self.computing():
                shared = self.hidden(*(it.to(device) for it in (rows.tokens, rows.positions, rows.ends)))
                found = torch.cat([self._outputs(shared[path.to(device)]) for path in rows.paths])
                alone = [self.hidden(it.to(device), torch.arange(len(it), device=device)) for it in sequences]
                expected = torch.cat([self._outputs(it) for it in alone])
        except Exception as error:  # what a kernel of this device cannot do is told in many ways
            if self.ranks.size > 1:
                raise
            print(f"rows of several sequences by {attention}: {_short(error)}", file=sys.stderr)
            return False
        finally:
            self.sharing = before
        return float((found - expected).abs().max()) < _LARGEST_DIFFERENCE[self.dtype]

    def keep_reference(self) -> None:
        """Keep what is trained as it is now, on the CPU."""
        self._reference = {name: local(it).detach().to("cpu", copy=True) for name, it in self._trained.items()}

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Compute with what was kept."""
        if self._reference is None:
            raise LearnerError(Fault.CONFIGURATION, "no reference weights were kept")
        kept = self._reference
        if self.lora is not None and all(not it.any() for name, it in kept.items() if "lora_B" in name):
            with self._adapted.disable_adapter():
                yield
            return
        # FSDP keeps views of the weights: their numbers are changed, not they.
        current = {name: local(it).detach().clone() for name, it in self._trained.items()}
        try:
            self._fill(kept)
            yield
        finally:
            self._fill(current)

    def _fill(self, numbers: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, it in self._trained.items():
                local(it).copy_(numbers[name])

    def whole_weights(self) -> dict[str, Tensor]:
        """Return what is trained, on the CPU. Every process takes part."""
        return {name: whole(it) for name, it in self._trained.items()}

    def write(self, new: NewDirectory, tensors: dict[str, Tensor]) -> None:
        """Write what is trained."""
        if self.lora is None:
            config = {**read_json(self.path / "config.json"), "dtype": "float32"}
            config.pop("torch_dtype", None)
            if self.has_score:
                config["architectures"] = [type(self.model).__name__]
                config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
            new.write("config.json", _text(config))
            new.write_tensors(WEIGHTS, tensors)
            new.copy_tokenizer(self.path)
            return
        alpha = self.lora.alpha
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": str(self.path),
            "r": self.lora.rank,
            "lora_alpha": int(alpha) if float(alpha).is_integer() else alpha,
            "lora_dropout": 0.0,
            "target_modules": self.modules,
            "bias": "none",
            "fan_in_fan_out": False,
            "use_rslora": False,
            "use_dora": False,
            "modules_to_save": None,
            "inference_mode": True,
        }
        new.write(ADAPTER_CONFIG, _text(config))
        new.write_tensors(ADAPTER_WEIGHTS, tensors)

    def read(self, directory: Path) -> dict[str, Tensor]:
        """Return what was written, without going on from it yet."""
        shapes = {name: it.shape for name, it in self._trained.items()}
        if self.lora is None:
            return read_tensors(directory, WEIGHTS, shapes)
        path = directory / ADAPTER_CONFIG
        config = read_json(path)
        scale, own = float(config["lora_alpha"]) / float(config["r"]), self.lora.alpha / self.lora.rank
        if scale != own:
            message = f"its alpha by its rank is {scale}, but the adapter that is trained has {own}"
            raise LearnerError(Fault.FILES, message, str(path))
        return read_tensors(directory, ADAPTER_WEIGHTS, shapes)

    def take(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what was read."""
        with torch.no_grad():
            for name, it in self._trained.items():
                local(it).copy_(local(spread_like(tensors[name], it)))


def _has_score(path: Path) -> bool:
    """Whether a model's directory has a score for a head."""
    names = read_json(path / "config.json").get("architectures") or []
    return any(name.endswith("ForSequenceClassification") for name in names)


def _device(name: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        built = f"torch {torch.__version__} sees no CUDA device (nvidia-smi says whether there is one)"
        raise LearnerError(Fault.CONFIGURATION, f'[torch] device is "cuda", but {built}; "auto" takes the CPU then')
    return torch.device("cuda" if has_cuda and name != "cpu" else "cpu")


def _quantization(dtype: torch.dtype) -> Any:
    if find_spec("bitsandbytes") is None:
        message = f'[torch] dtype "nf4" needs bitsandbytes; help: {sys.executable} -m pip install bitsandbytes'
        raise LearnerError(Fault.CONFIGURATION, message)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def _is_linear(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Linear)


def _short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


def _text(fields: dict[str, Any]) -> bytes:
    return (json.dumps(fields, indent=2) + "\n").encode()
