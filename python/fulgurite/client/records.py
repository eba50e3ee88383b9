"""What a server records: rollouts, attempts, generations, rewards, spans and weights.

Times are seconds since 1970. Fields that a newer server adds are passed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

RolloutStatus = Literal["queuing", "preparing", "running", "failed", "succeeded", "cancelled", "requeuing"]
"""Where a rollout stands; `failed`, `succeeded` and `cancelled` are ends."""

AttemptStatus = Literal["preparing", "running", "failed", "succeeded", "unresponsive", "timeout"]
"""Where one attempt at a rollout stands."""

Mode = Literal["train", "val", "test"]
"""What a rollout is for."""

Giver = Literal["grader", "judge", "person", "admin", "agent", "unknown"]
"""Who gave a reward, by the key that it came with."""


@dataclass(frozen=True)
class RolloutConfig:
    """How long an attempt may take, and what happens when it fails."""

    timeout_seconds: float | None = None
    unresponsive_seconds: float | None = None
    max_attempts: int = 1
    retry_condition: list[AttemptStatus] = field(default_factory=list)


@dataclass(frozen=True)
class NewRollout:
    """A rollout to be put on the queue. Without an id, it gets one."""

    input: Any
    mode: Mode | None = None
    rollout_id: str | None = None
    resources_id: str | None = None
    config: RolloutConfig | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class Attempt:
    """One try at a rollout, by one worker."""

    rollout_id: str
    attempt_id: str
    sequence_id: int
    start_time: float
    end_time: float | None
    status: AttemptStatus
    worker_id: str | None
    last_heartbeat_time: float | None
    metadata: dict[str, Any] | None
    grader: str | None = None


@dataclass(frozen=True)
class Rollout:
    """One task given to an agent, however many attempts it takes."""

    rollout_id: str
    input: Any
    start_time: float
    end_time: float | None
    mode: Mode | None
    resources_id: str | None
    status: RolloutStatus
    config: RolloutConfig
    metadata: dict[str, Any] | None
    attempt: Attempt | None = None
    """The latest, where the server tells it."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.status in ("failed", "succeeded", "cancelled")


@dataclass(frozen=True)
class Reward:
    """A reward as it was recorded."""

    attempt_id: str
    span_id: str
    sequence_id: int
    time: float | None
    generation_id: str | None
    """The model call that it is for; None if it is for the whole attempt."""
    value: float
    name: str
    components: dict[str, float]
    giver: Giver | None


@dataclass(frozen=True)
class WeightsFrom:
    """Which weights sampled the tokens from `first_token` on, up to the next entry."""

    version: int
    first_token: int


@dataclass(frozen=True)
class Generation:
    """One answered model call, with its tokens as they were sampled."""

    generation_id: str
    rollout_id: str
    attempt_id: str
    span_id: str
    trace_id: str
    name: str
    sequence_id: int
    parent_id: str | None
    """The generation whose prompt and sampled tokens this prompt begins with."""
    branch_reason: str | None
    start_time: float
    end_time: float
    model: str
    prompt_tokens: list[int]
    sampled_tokens: list[int]
    logprobs: list[float] | None
    """The sampler's, one for each sampled token, exact to the bit of a 32-bit number."""
    stop_reason: str
    weights_versions: list[WeightsFrom]
    sampling: dict[str, Any] | None
    seed: int
    renderer: str
    tokenizer: str
    request_digest: str
    client_gone: bool
    defect: str | None

    @property
    def is_exact(self) -> bool:
        """Whether its tokens and logprobs are known exactly, so that it may be trained.

        Which of these a run trains depends on the run as well, such as how old their weights may be.
        """
        is_whole = self.defect is None and not self.client_gone and bool(self.prompt_tokens and self.sampled_tokens)
        return is_whole and self.logprobs is not None and all(map(math.isfinite, self.logprobs))


@dataclass(frozen=True)
class Span:
    """One operation that an agent did: an OpenTelemetry span, with the rollout that it belongs to."""

    rollout_id: str
    attempt_id: str
    sequence_id: int
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    status: dict[str, Any]
    attributes: dict[str, Any]
    events: list[Any]
    links: list[Any]
    start_time: float | None
    end_time: float | None


@dataclass(frozen=True)
class RolloutRecord:
    """A rollout with all that was recorded of it."""

    rollout: Rollout
    attempts: list[Attempt]
    """In order; the last one counts."""
    rewards: list[Reward]
    """Those of the last attempt, in the order in which they were given."""
    generations: list[Generation]
    """Those of all attempts, in the order of recording."""


@dataclass(frozen=True)
class Triplet:
    """A prompt, the answer to it and its reward, in tokens."""

    generation_id: str
    prompt_tokens: list[int]
    sampled_tokens: list[int]
    logprobs: list[float]
    reward: float | None
    """The call's own; of the attempt's last call otherwise the attempt's; None of others."""


@dataclass(frozen=True)
class Datum:
    """One sequence to train on: a conversation from its first prompt to its last answer, in tokens.

    `mask` is 1 where a token was sampled and is trained in this datum. A prefix that two sequences share is trained in the
    first of them alone. `logprobs` is the sampler's where the mask is 1, else 0. All three lists have one length.
    """

    rollout_id: str
    attempt_id: str
    generation_ids: list[str]
    tokens: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float | None


@dataclass(frozen=True)
class NamedWeights:
    """Weights that have a version in a store. A version of a model names one set of weights for ever."""

    model: str
    version: int
    weights_id: str
    parent_id: str | None
    run_id: str | None
    step: int | None
    time: float


@dataclass(frozen=True)
class Publication:
    """Weights that were put behind a model at every server of a store. The newest of a model is in force."""

    position: int
    model: str
    version: int
    weights_id: str
    run_id: str | None
    step: int | None
    source: Any
    cause: str
    published_time: float


@dataclass(frozen=True)
class ServedWeights:
    """What a server samples a model from, and how far it has got with the newest weights."""

    server_id: str
    url: str
    model: str
    version: int | None
    state: str
    message: str | None
    time: float


@dataclass(frozen=True)
class ModelState:
    """A served model: its weights, and whether it takes calls."""

    model: str
    weights_version: int | None
    weights_id: str | None
    weights_state: str
    weights_message: str | None
    paused: bool
    reason: str | None
    in_flight: int
    held: int
    own_weights_id: str | None = None


@dataclass(frozen=True)
class Health:
    """That the server answers, and what it samples its models from."""

    status: str
    models: Any
