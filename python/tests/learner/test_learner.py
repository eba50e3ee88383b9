"""Passes, steps and directories, against the model as transformers computes it, row by row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from fulgurite.learner import learner as learner_module
from fulgurite.learner import passes
from fulgurite.learner.files import DIGEST_LIST
from fulgurite.learner.losses import Comparisons, TokenLoss
from fulgurite.learner.protocol import LearnerError
from safetensors.torch import load_file

from .conftest import write_model
from .test_losses import LOSSES, pair_loss, written_out

Made = Callable[..., Any]
ADAM = {
    "learning_rate": 1e-2,
    "beta1": 0.9,
    "beta2": 0.95,
    "epsilon": 1e-8,
    "weight_decay": 0.1,
    "gradient_clip_norm": 1.0,
}
LENGTHS = [5, 9, 20, 3, 1, 7]


def row_by_row(learner: Any, data: Any, temperature: float = 1.0) -> tuple[Any, Any]:
    """Return logprobs of all slots, and entropies of all positions, by the whole model alone."""
    logprobs, entropies = [], []
    for index, width in enumerate(data.widths):
        tokens = data.tokens[data.token_starts[index] : data.token_starts[index + 1]]
        logits = learner.policy.model(input_ids=tokens[None], use_cache=False).logits[0].float()
        found = (logits / temperature).log_softmax(-1)
        logprobs.append(found.gather(1, data.targets[data.slots(index)].reshape(-1, width)).reshape(-1))
        entropies.append(-(found.exp() * found).sum(-1))
    return torch.cat(logprobs), torch.cat(entropies)


def gradients(learner: Any) -> Any:
    found = [it.grad for it in learner.policy.trained.values()]
    learner._drop_gradient()
    return torch.cat([it.reshape(-1) for it in found])


def differentiated(learner: Any, loss: Any) -> Any:
    found = torch.autograd.grad(loss, list(learner.policy.trained.values()), allow_unused=True)
    pairs = zip(found, learner.policy.trained.values(), strict=True)
    return torch.cat([(torch.zeros_like(it) if grad is None else grad).reshape(-1) for grad, it in pairs])


def near(found: Any, expected: Any) -> None:
    assert float((found - expected).norm()) < 1e-5 * float(expected.norm()), (found.norm(), expected.norm())


def stir(learner: Any) -> None:
    """Give every part of an adapter numbers that matter."""
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for it in learner.policy.trained.values():
            it.add_(0.1 * torch.randn(it.shape, generator=draw))


@pytest.mark.parametrize("kind", ["Qwen3", "Qwen2", "Llama", "Gemma2", "Mistral"])
def test_packed_logprobs_are_those_of_rows_alone(learner: Made, data: Made, tmp_path: Path, kind: str) -> None:
    made = learner(path=write_model(tmp_path / "m", kind))
    rows = data(LENGTHS)
    assert made.policy.packs
    with torch.no_grad():
        expected, _ = row_by_row(made, rows)
    torch.testing.assert_close(made.forward(rows)["logprobs"], expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_a_losss_gradient_is_that_of_rows_alone(
    learner: Made, data: Made, monkeypatch: pytest.MonkeyPatch, rank: int, name: str
) -> None:
    monkeypatch.setattr(passes, "_CHUNK_BYTES", 4 * 61 * 4)  # four rows of logits at a time
    made, rows = learner(rank), data(LENGTHS, policy=name != "cross_entropy")
    stir(made)
    loss = TokenLoss(name, 0.8, 1.2, 0.5)
    rows.sampler_logprobs = made.forward(rows)["logprobs"] + 0.1 * rows.sampler_logprobs + 0.4
    found = made.forward_backward(rows, loss)
    gradient = gradients(made)
    logprobs, entropies = row_by_row(made, rows)
    trained = rows.weights != 0
    if name == "gspo":
        expected = torch.zeros(())
        for index in range(len(rows)):
            own = torch.zeros_like(trained)
            own[rows.slots(index)] = trained[rows.slots(index)]
            if bool(own.any()):
                # Of the sequence, with a gradient for each token by its own advantage (GSPO-token).
                ratio = (logprobs - rows.sampler_logprobs)[own].mean().exp().detach()
                ratio = ratio * (logprobs - logprobs.detach())[own].exp()
                advantage = rows.advantages[own]
                expected = expected - torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum()
    else:
        lists = (logprobs, rows.weights, rows.sampler_logprobs, rows.advantages)
        expected = written_out(loss, *(it[trained] for it in lists)).sum()
    near(gradient, differentiated(made, expected))
    expected = expected.detach()
    assert abs(float(found["loss_sum"]) - float(expected)) < 1e-4 * abs(float(expected))
    torch.testing.assert_close(found["logprobs"], logprobs.detach() * trained, atol=1e-5, rtol=0)
    torch.testing.assert_close(found["entropies"], entropies.detach() * trained, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["importance_sampling", "gspo"])
def test_sampled_tokens_are_trained_at_the_samplers_temperature(learner: Made, data: Made, name: str) -> None:
    made, rows = learner(), data(LENGTHS, policy=True)
    made.set_sampling_temperature(0.7)
    logprobs, entropies = row_by_row(made, rows, 0.7)
    rows.sampler_logprobs = logprobs.detach()
    torch.testing.assert_close(made.forward(rows)["logprobs"], logprobs.detach(), atol=2e-5, rtol=0)
    found = made.forward_backward(rows, TokenLoss(name, 0.8, 1.2))
    trained = rows.weights != 0
    near(gradients(made), differentiated(made, -(logprobs * rows.advantages)[trained].sum()))
    torch.testing.assert_close(found["entropies"], entropies.detach() * trained, atol=1e-5, rtol=0)
    texts = data(LENGTHS)
    torch.testing.assert_close(made.forward(texts)["logprobs"], row_by_row(made, texts)[0].detach(), atol=2e-5, rtol=0)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(LearnerError, match="must be above 0"):
            made.set_sampling_temperature(wrong)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_gradient_of_the_entropy_is_exact(
    learner: Made, data: Made, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    monkeypatch.setattr(passes, "_CHUNK_BYTES", 4 * 61 * 4)
    made, rows = learner(), data(LENGTHS, policy=True)
    made.set_sampling_temperature(temperature)
    logprobs, entropies = row_by_row(made, rows, temperature)
    rows.sampler_logprobs = logprobs.detach()
    found = made.forward_backward(rows, TokenLoss("importance_sampling"), 0.25)
    trained = rows.weights != 0
    expected = -(logprobs * rows.advantages + 0.25 * entropies)[trained].sum()
    near(gradients(made), differentiated(made, expected))
    assert abs(float(found["loss_sum"]) + float(rows.advantages[trained].sum())) < 1e-4
    torch.testing.assert_close(made.entropies(rows)["entropies"], entropies.detach() * trained, atol=1e-5, rtol=0)


def test_soft_targets_share_the_logits_of_their_position(learner: Made, data: Made) -> None:
    made, rows = learner(), data(LENGTHS, width=3)
    found = made.forward_backward(rows, TokenLoss("cross_entropy"))
    gradient = gradients(made)
    logprobs, entropies = row_by_row(made, rows)
    near(gradient, differentiated(made, -(rows.weights * logprobs).sum()))
    trained = (rows.weights != 0).reshape(-1, 3)
    first = trained & (trained.cumsum(1) == 1)
    expected = (entropies.detach()[:, None] * first).reshape(-1)
    torch.testing.assert_close(found["entropies"], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_of_comparisons_is_that_of_rows_alone(learner: Made, data: Made, loss: dict[str, Any]) -> None:
    made, rows = learner(3, 16), data(LENGTHS)
    stir(made)
    rows.weights = rows.weights.abs()
    ranges = [[0, 1, 1, 2], [2, 4, 4, 6]]  # the second has two datums a side
    references = torch.tensor([[-20.0, -25.0], [-70.0, -30.0]], dtype=torch.float64)
    found = made.forward_backward_comparisons(rows, Comparisons(loss, 0.5, ranges, references))
    gradient = gradients(made)
    logprobs, _ = row_by_row(made, rows)

    def summed(numbers: Any) -> Any:
        sides = [range(*place) for one in ranges for place in (one[:2], one[2:])]
        sums = [torch.cat([numbers[rows.slots(i)] for i in side]).double().sum() for side in sides]
        return torch.stack(sums).reshape(-1, 2)

    expected = 0.5 * pair_loss(loss, summed(rows.weights * logprobs), summed(rows.weights), references).sum()
    near(gradient, differentiated(made, expected))
    expected = expected.detach()
    assert abs(float(found["loss_sum"]) - float(expected)) < 1e-5 * abs(float(expected))


def test_activations_that_are_computed_twice_leave_the_same_gradient(learner: Made, data: Made) -> None:
    rows = data(LENGTHS)
    found = []
    for checkpointing in ("off", "on"):
        made = learner(3, checkpointing=checkpointing)
        stir(made)
        made.forward_backward(rows, TokenLoss("cross_entropy"))
        found.append(gradients(made))
    near(found[1], found[0])


@pytest.mark.parametrize("rank", [0, 3])
def test_the_reference_is_what_was_kept(learner: Made, data: Made, rank: int) -> None:
    made, rows = learner(rank), data(LENGTHS)
    with pytest.raises(LearnerError, match="no reference weights were kept"):
        made.forward_reference(rows)
    made.keep_reference()
    before = made.forward(rows)["logprobs"] * (rows.weights != 0)
    for kept in (before, None):
        made.forward_backward(rows, TokenLoss("cross_entropy"))
        made.optimizer_step(ADAM)
        if kept is None:  # anew, of an adapter that is not empty any more
            made.keep_reference()
            kept = made.forward(rows)["logprobs"] * (rows.weights != 0)
            made.optimizer_step(ADAM)
        now = made.forward(rows)["logprobs"]
        assert torch.equal(made.forward_reference(rows)["logprobs"], kept)
        assert torch.equal(made.forward(rows)["logprobs"], now)
        assert not torch.equal(now * (rows.weights != 0), kept)


def test_a_step_is_adamws_after_clipping(learner: Made, data: Made) -> None:
    made, rows = learner(3), data(LENGTHS)
    before = {name: it.detach().clone() for name, it in made.policy.trained.items()}
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    gradient = {name: it.grad.clone() for name, it in made.policy.trained.items()}
    norm, _ = made.optimizer_step(ADAM)
    assert norm == pytest.approx(float(torch.cat([it.reshape(-1) for it in gradient.values()]).norm()), rel=1e-5)
    assert norm > 1
    for name, it in made.policy.trained.items():
        clipped = gradient[name].double() / norm
        expected = before[name].double() * (1 - 1e-3) - 1e-2 * clipped / (clipped.abs() + 1e-8)
        torch.testing.assert_close(it.detach(), expected.float(), atol=2e-6, rtol=0)


def test_passes_and_calls_before_a_step_add_up_to_one_gradient(learner: Made, data: Made) -> None:
    rows = data(LENGTHS)
    halves = [data(LENGTHS, seed=seed) for seed in (3, 4)]
    for rank in (0, 3):
        found = []
        for limit in (1000, 10):
            made = learner(rank, limit=limit)
            made.forward_backward(rows, TokenLoss("cross_entropy"))
            found.append(gradients(made))
        near(found[1], found[0])
        made = learner(rank)
        apart = []
        for half in halves:
            made.forward_backward(half, TokenLoss("cross_entropy"))
            apart.append(gradients(made))
        for half in halves:
            made.forward_backward(half, TokenLoss("cross_entropy"))
        near(gradients(made), apart[0] + apart[1])


FACTORS = {"embeddings": 0.1, "norms": 2.0, "layers": 0.5}


def test_parts_learn_at_rates_of_their_own(learner: Made, data: Made, tmp_path: Path) -> None:
    rows, loss = data(LENGTHS), TokenLoss("cross_entropy")
    made = learner(parts={"factors": FACTORS})
    before = {name: it.detach().clone() for name, it in made.policy.trained.items()}
    rate_of = {"embed_tokens": 0.1, "norm": 2.0}
    rates = {name: next((rate_of[it] for it in rate_of if it in name), 0.5) for name in before}
    # As torch 2.15 has it, with a group of parameters for each.
    theirs = {name: torch.nn.Parameter(it.clone()) for name, it in before.items()}
    groups = [{"params": [theirs[name]], "lr": 1e-2 * rates[name]} for name in theirs]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for _ in range(2):
        made.forward_backward(rows, loss)
        for name, it in made.policy.trained.items():
            theirs[name].grad = it.grad.clone()
        made.optimizer_step({**ADAM, "gradient_clip_norm": 0.0})
        optimizer.step()
    for name, it in made.policy.trained.items():
        torch.testing.assert_close(it.detach(), theirs[name].detach(), atol=1e-6, rtol=0)
    with pytest.raises(LearnerError, match=r"learning_rate_factors\.head is of no tensor"):
        learner(parts={"factors": {"head": 2.0}})
    adapted = learner(3, parts={"factors": {"lora_b": 16.0}})
    assert sorted(group["rate"] for group in adapted._optimizer.param_groups) == [1.0, 16.0]


def test_frozen_tensors_stay_and_add_nothing_to_the_norm(learner: Made, data: Made, tmp_path: Path) -> None:
    rows, loss, frozen = data(LENGTHS), TokenLoss("cross_entropy"), {"frozen": ["embed_tokens", "layers.0"]}
    whole = learner()
    whole.forward_backward(rows, loss)
    norm = torch.cat(
        [
            it.grad.reshape(-1)
            for name, it in whole.policy.trained.items()
            if ".layers.0." not in name and "embed_tokens" not in name
        ]
    ).norm()
    made = learner(parts=frozen)
    before = {name: it.detach().clone() for name, it in made.policy.trained.items()}
    made.forward_backward(rows, loss)
    assert made.optimizer_step(ADAM)[0] == pytest.approx(float(norm), rel=1e-5)
    stayed = {name for name, it in made.policy.trained.items() if torch.equal(it, before[name])}
    assert stayed == {name for name in before if ".layers.0." in name or "embed_tokens" in name}
    made.save_checkpoint(tmp_path / "one")
    again = learner(parts=frozen)
    again.load_checkpoint(tmp_path / "one")
    for it, name in ((made, "two"), (again, "again")):
        it.forward_backward(rows, loss)
        it.optimizer_step(ADAM)
        it.save_checkpoint(tmp_path / name)
    assert saved(tmp_path / "two") == saved(tmp_path / "again")
    for wrong, message in ((["layers.2"], "no tensor that is trained"), (["model"], "nothing to train")):
        with pytest.raises(LearnerError, match=message):
            learner(parts={"frozen": wrong})


def test_a_learner_that_leaves_its_device_takes_weights_gradients_and_moments_along(learner: Made, data: Made) -> None:
    made, rows = learner(3), data(LENGTHS)
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    made.optimizer_step(ADAM)
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    made.release_gpu()  # which it does not have
    made._move(torch.device("meta"))  # which stands for a GPU
    parameters = list(made.policy.model.parameters())
    gradients = [it.grad for it in parameters if it.requires_grad]
    moments = [it for state in made._optimizer.state.values() for it in state.values()]
    assert len(gradients) == len(made.policy.trained)
    assert len(moments) == 3 * len(gradients)
    assert {it.device.type for it in [*parameters, *gradients, *moments]} == {"meta"}


def test_a_gradient_that_is_not_finite_changes_nothing(learner: Made, data: Made) -> None:
    made, rows = learner(), data(LENGTHS)
    before = made.forward(rows)["logprobs"]
    rows.weights[0] = float("inf")
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    with pytest.raises(LearnerError, match=r"not finite .* the weights are unchanged and the gradient is dropped"):
        made.optimizer_step(ADAM)
    assert torch.equal(made.forward(rows)["logprobs"], before)
    with pytest.raises(LearnerError, match="optimizer: epsilon is 0"):
        made.optimizer_step({**ADAM, "epsilon": 0.0})


def saved(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_gradient_above_its_bound_is_dropped(learner: Made, data: Made) -> None:
    made, plain = learner(), learner()
    for one in (made, plain):
        one.forward_backward(data(LENGTHS), TokenLoss("cross_entropy"))
    norm, _ = plain.optimizer_step(ADAM)
    assert made.skip_spike(0.99 * norm) == pytest.approx(norm)
    assert all(it.grad is None for it in made.policy.trained.values())
    made.forward_backward(data(LENGTHS), TokenLoss("cross_entropy"))
    assert made.skip_spike(math.inf) is None
    made.optimizer_step(ADAM)
    for ours, theirs in zip(made.policy.trained.values(), plain.policy.trained.values(), strict=True):
        assert torch.equal(ours, theirs)
    made.forward_backward(data(LENGTHS), TokenLoss("cross_entropy"))
    next(iter(made.policy.trained.values())).grad.fill_(math.nan)
    assert math.isnan(made.skip_spike(math.inf))


@pytest.mark.parametrize("rank", [0, 3])
def test_a_resumed_learner_ends_in_the_same_bytes(learner: Made, data: Made, tmp_path: Path, rank: int) -> None:
    def step(made: Any, seed: int) -> None:
        made.forward_backward(data(LENGTHS, seed=seed), TokenLoss("cross_entropy"))
        made.optimizer_step(ADAM)

    first = learner(rank)
    first.save_checkpoint(tmp_path / "start")
    step(first, 1)
    first.save_checkpoint(tmp_path / "one")
    step(first, 2)
    first.save_checkpoint(tmp_path / "two")
    second = learner(rank)
    stir(second)
    second.forward_backward(data(LENGTHS, seed=9), TokenLoss("cross_entropy"))
    for start, seeds in (("one", [2]), ("start", [1, 2])):
        second.load_checkpoint(tmp_path / start)
        for seed in seeds:
            step(second, seed)
        second.save_checkpoint(tmp_path / f"again-{start}")
        assert saved(tmp_path / f"again-{start}") == saved(tmp_path / "two")
    listed = (tmp_path / "two" / DIGEST_LIST).read_text()
    assert all(name in listed for name in saved(tmp_path / "two") if name != DIGEST_LIST)


@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_an_adapter_is_read_by_peft(
    learner: Made, data: Made, tmp_path: Path, model: Path, *, rank_stabilized: bool
) -> None:
    from peft import PeftModel

    made, rows = learner(3, rank_stabilized=rank_stabilized), data([9])
    stir(made)
    made.save_weights(tmp_path / "adapter")
    base = transformers.AutoModelForCausalLM.from_pretrained(model)
    theirs = PeftModel.from_pretrained(base, tmp_path / "adapter")
    # As peft 0.21.2 has it: alpha by the rank, or by its root.
    scaling = theirs.base_model.model.lm_head.scaling["default"]
    assert scaling == pytest.approx(4.618802153517 if rank_stabilized else 2.666666666667)
    with torch.no_grad():
        logits = theirs(input_ids=rows.tokens[None]).logits[0].log_softmax(-1)
    expected = logits.gather(1, rows.targets[:, None])[:, 0]
    torch.testing.assert_close(made.forward(rows)["logprobs"], expected, atol=2e-5, rtol=0)


def test_training_goes_on_from_an_adapter_of_peft(learner: Made, data: Made, tmp_path: Path, model: Path) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(5)
    base = transformers.AutoModelForCausalLM.from_pretrained(model)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=3,
        lora_alpha=5,
        use_rslora=True,
        lora_dropout=0.1,
        target_modules=["q_proj", "down_proj"],
        layers_to_transform=[1],
        init_lora_weights=False,
    )
    theirs = get_peft_model(base, config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    start, rows = str(tmp_path / "theirs"), data([9])
    form = {"alpha": 5.0, "rank_stabilized": True, "start": start}
    made = learner(3, **form)
    with torch.no_grad():
        logits = theirs(input_ids=rows.tokens[None]).logits[0].log_softmax(-1)
    expected = logits.gather(1, rows.targets[:, None])[:, 0]
    torch.testing.assert_close(made.forward(rows)["logprobs"], expected, atol=2e-5, rtol=0)
    assert len(made.policy.trained) == 4
    assert all(".layers.1." in name for name in made.policy.trained)
    made.save_checkpoint(tmp_path / "one")
    names = [it / "adapter_model.safetensors" for it in (tmp_path / "one", tmp_path / "theirs")]
    own, began = (load_file(path) for path in names)
    assert own.keys() == began.keys()
    assert all(torch.equal(own[name], began[name]) for name in own)
    written = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert (written["r"], written["lora_alpha"], written["use_rslora"]) == (3, 5, True)
    assert (sorted(written["target_modules"]), written["layers_to_transform"]) == (["down_proj", "q_proj"], [1])
    # Another one goes on from the checkpoint to the same bytes.
    made.forward_backward(rows, TokenLoss("cross_entropy"))
    made.optimizer_step(ADAM)
    again = learner(3, **form)
    again.load_checkpoint(tmp_path / "one")
    again.forward_backward(rows, TokenLoss("cross_entropy"))
    again.optimizer_step(ADAM)
    for it, name in ((made, "made"), (again, "again")):
        it.save_checkpoint(tmp_path / name)
    assert saved(tmp_path / "made") == saved(tmp_path / "again")


def test_an_adapter_that_does_not_fit_is_not_gone_on_from(learner: Made, tmp_path: Path) -> None:
    learner(3).save_weights(tmp_path / "start")
    path = tmp_path / "start" / "adapter_config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "target_modules": ["q_proj"]}))
    with pytest.raises(LearnerError, match="no place for its tensor"):
        learner(3, start=str(tmp_path / "start"))
    path.write_text(json.dumps({**fields, "target_modules": ["unheard_of"]}))
    with pytest.raises(LearnerError, match="cannot be added to the model"):
        learner(3, start=str(tmp_path / "start"))


def test_dropout_follows_from_seed_and_place(learner: Made, data: Made, tmp_path: Path) -> None:
    rows, loss = data(LENGTHS), TokenLoss("cross_entropy")
    made, plain = learner(3, dropout=0.5), learner(3)
    stir(made)
    stir(plain)
    assert torch.equal(made.forward(rows)["logprobs"], plain.forward(rows)["logprobs"])

    def gradient(it: Any) -> Any:
        it.forward_backward(rows, loss)
        return gradients(it)

    dropped = gradient(made)
    assert torch.equal(gradient(made), dropped)
    assert not torch.allclose(dropped, gradient(plain))
    made.forward_backward(rows, loss)
    made.forward_backward(rows, loss)
    assert not torch.allclose(gradients(made), 2 * dropped), "another pass leaves out others"
    # The masks of a resumed learner, and of one whose activations are computed twice.
    made.forward_backward(rows, loss)
    made.optimizer_step(ADAM)
    made.save_checkpoint(tmp_path / "one")
    assert json.loads((tmp_path / "one" / "adapter_config.json").read_text())["lora_dropout"] == 0.5
    again, twice = learner(3, dropout=0.5), learner(3, dropout=0.5, checkpointing="on")
    for it in (again, twice):
        it.load_checkpoint(tmp_path / "one")
    expected = gradient(made)
    assert torch.equal(gradient(again), expected)
    near(gradient(twice), expected)


def test_only_the_chosen_layers_are_adapted(learner: Made, tmp_path: Path) -> None:
    made = learner(2, layers=[1])
    assert made.policy.trained
    assert all(".layers.1." in name for name in made.policy.trained)
    made.save_weights(tmp_path / "adapter")
    fields = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert fields["layers_to_transform"] == [1]
    assert "lm_head" not in fields["target_modules"]
    with pytest.raises(LearnerError, match="lora_layers has layer 2, but the model's layers are 0 to 1"):
        learner(2, layers=[0, 2])


def test_nothing_half_written_is_left(learner: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner(3)
    (tmp_path / "there").mkdir()
    with pytest.raises(LearnerError, match="it exists already"):
        made.save_checkpoint(tmp_path / "there")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "new.partial").mkdir()  # of a process that died
    monkeypatch.setattr("fulgurite.learner.files.save_file", full)
    with pytest.raises(LearnerError, match="No space left on device"):
        made.save_checkpoint(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_directory_of_another_adapter_is_refused(learner: Made, tmp_path: Path) -> None:
    made = learner(3)
    learner(4).save_checkpoint(tmp_path / "wider")
    with pytest.raises(LearnerError, match="products are scaled with"):
        made.load_checkpoint(tmp_path / "wider")
    learner(3, modules=["q_proj"]).save_checkpoint(tmp_path / "fewer")
    with pytest.raises(LearnerError, match="is missing"):
        made.load_checkpoint(tmp_path / "fewer")
    with pytest.raises(LearnerError, match=r"no module x_proj for an adapter; there is .*q_proj"):
        learner(3, modules=["x_proj"])


def test_datums_that_the_model_cannot_read_are_named(learner: Made, data: Made) -> None:
    made = learner()
    with pytest.raises(LearnerError, match="datum 1: it has 65 positions, but the model's context length is 64"):
        made.forward(data([2, 65]))
    rows = data([2, 3])
    rows.tokens[3] = 61
    with pytest.raises(LearnerError, match="datum 1: token 61 is not in the vocabulary of 61 tokens"):
        made.forward(rows)
    with pytest.raises(LearnerError, match="datum 0: ppo needs logprobs, advantages and a mask"):
        made.forward_backward(data([2]), TokenLoss("ppo", 0.8, 1.2))
    halved = data([2, 3], policy=True)
    halved.weights[:] = 1
    halved.weights[3] = 0.5
    with pytest.raises(LearnerError, match=r"datum 1: mask\[1\] is 0.5, but a mask is 0 or 1"):
        made.forward_backward(halved, TokenLoss("ppo", 0.8, 1.2))


def test_out_of_memory_names_the_key_to_lower(learner: Made, data: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner(limit=16)

    def full(*_: Any) -> None:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"
        )

    made.forward_backward(data([5]), TokenLoss("cross_entropy"))
    monkeypatch.setattr(made.policy, "hidden", full)
    with pytest.raises(LearnerError) as error:
        made.forward_backward(data([5, 9, 5]), TokenLoss("cross_entropy"))
    for words in (
        "a pass of 14 tokens in 2 sequences (max_tokens_per_pass = 16)",
        "tried to allocate",
        "lower [torch]",
    ):
        assert words in error.value.message
    with pytest.raises(LearnerError, match="a sequence is never cut"):
        made.forward(data([20]))
    assert all(it.grad is None for it in made.policy.trained.values()), "half of a gradient is none"


def test_bfloat16_is_near(learner: Made, data: Made) -> None:
    rows = data(LENGTHS)
    for rank in (0, 3):
        exact, made = learner(rank), learner(rank, dtype="bfloat16")
        assert all(it.dtype == torch.float32 for it in made.policy.trained.values())
        near_by = exact.forward(rows)["logprobs"] - made.forward(rows)["logprobs"]
        assert 0 < float(near_by.abs().max()) < 0.3
        made.forward_backward(rows, TokenLoss("cross_entropy"))
        made.optimizer_step(ADAM)


def test_weights_of_four_bits_stand_beside_an_adapter(
    learner: Made, data: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LearnerError, match="lora_rank"):
        learner(dtype="nf4")
    with monkeypatch.context() as changed:
        changed.setattr("fulgurite.learner.policy.find_spec", lambda _: None)
        with pytest.raises(LearnerError, match="-m pip install bitsandbytes"):
            learner(3, dtype="nf4")
    pytest.importorskip("bitsandbytes")
    path = write_model(tmp_path / "m", hidden_size=64, intermediate_size=64, head_dim=16)  # its blocks have 64 numbers
    rows, made, exact = data(LENGTHS), learner(3, path=path, dtype="nf4"), learner(3, path=path)
    near_by = exact.forward(rows)["logprobs"] - made.forward(rows)["logprobs"]
    assert 0 < float(near_by.abs().mean()) < 0.5
    found = []
    for one in (exact, made):
        stir(one)
        one.forward_backward(rows, TokenLoss("cross_entropy"))
        found.append(gradients(one))
    assert float(torch.nn.functional.cosine_similarity(*found, dim=0)) > 0.9
    losses = []
    for _ in range(5):
        losses.append(float(made.forward_backward(rows, TokenLoss("cross_entropy"))["loss_sum"]))
        made.optimizer_step(ADAM)
    assert losses[-1] < losses[0]
    made.save_checkpoint(tmp_path / "checkpoint")
    after = made.forward(rows)["logprobs"]
    again = learner(3, path=path, dtype="nf4")
    again.load_checkpoint(tmp_path / "checkpoint")
    assert torch.equal(again.forward(rows)["logprobs"], after)


def test_free_memory_is_known_here() -> None:
    assert learner_module.free_memory(torch.device("cpu")) > 1 << 20
