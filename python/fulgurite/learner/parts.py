"""Which tensors are trained, and how fast."""

from __future__ import annotations

from dataclasses import dataclass, field

from fulgurite.learner.protocol import Fault, LearnerError


@dataclass
class Parts:
    """What of a model is trained, as the config has it."""

    factors: dict[str, float] = field(default_factory=dict)
    """Of the step size: of `embeddings`, `head`, `norms`, `layers`, and `lora_b`, times that of its part."""
    frozen: list[str] = field(default_factory=list)
    """Tensors that stay as they are: components of their names one after another, with `*` for any and `0-11` for a range."""

    def rates(self, names: list[str]) -> dict[str, float]:
        """Return the factor of the step size of each tensor; 0 of one that stays as it is."""
        for pattern in self.frozen:
            if not any(_matches(pattern, name) for name in names):
                message = f'[[models]] frozen has "{pattern}", which is in the name of no tensor that is trained'
                raise LearnerError(Fault.CONFIGURATION, message)
        for key, factor in self.factors.items():
            if factor != 1 and not any(key in _keys(name) for name in names):
                message = f"[trainer] learning_rate_factors.{key} is of no tensor that is trained: leave it out"
                raise LearnerError(Fault.CONFIGURATION, message)
        rates = {}
        for name in names:
            rates[name] = 1.0
            for key in _keys(name):
                rates[name] *= self.factors.get(key, 1.0)
            if any(_matches(pattern, name) for pattern in self.frozen):
                rates[name] = 0.0
        if not any(rates.values()):
            raise LearnerError(Fault.CONFIGURATION, "[[models]] frozen leaves nothing to train")
        return rates


def _keys(name: str) -> tuple[str, ...]:
    components = name.split(".")
    if "lm_head" in components:
        part = "head"
    elif "embed_tokens" in components:
        part = "embeddings"
    elif any(component.endswith("norm") for component in components):
        part = "norms"
    else:
        part = "layers"
    return (part, "lora_b") if "lora_B" in components else (part,)


def _matches(pattern: str, name: str) -> bool:
    wanted, components = pattern.split("."), name.split(".")
    starts = range(len(components) - len(wanted) + 1)
    return any(all(map(_fits, wanted, components[start : start + len(wanted)])) for start in starts)


def _fits(wanted: str, component: str) -> bool:
    if wanted in ("*", component):
        return True
    first, dash, last = wanted.partition("-")
    numbers = (first, last, component)
    return bool(dash) and all(it.isdecimal() for it in numbers) and int(first) <= int(component) <= int(last)
