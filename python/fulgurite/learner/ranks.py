"""Several processes that train one model: each computes a share of every call's passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from fulgurite.learner.protocol import Fault, LearnerError
from fulgurite.learner.shared import Batch


@dataclass
class Ranks:
    """This process among those that train."""

    rank: int = 0
    size: int = 1
    sharded: bool = False
    """Whether layers' weights are spread over the processes, which then go through the decoder in step."""

    @classmethod
    def join(cls, rank: int, size: int, store: str, device: str) -> Ranks:
        """Wait for the others, which meet in the file `store`."""
        on_cuda = device != "cpu" and torch.cuda.is_available()
        if on_cuda:
            if size > torch.cuda.device_count():
                count = torch.cuda.device_count()
                message = f"[torch] processes is {size}, but torch sees {count} CUDA devices: one for each process"
                raise LearnerError(Fault.CONFIGURATION, message)
            torch.cuda.set_device(rank)
        else:
            torch.set_num_threads(max(1, torch.get_num_threads() // size))
        meeting = dist.FileStore(store, size)
        dist.init_process_group("nccl" if on_cuda else "gloo", store=meeting, rank=rank, world_size=size)
        return cls(rank, size)

    def share(self, batches: list[Batch]) -> list[Batch | None]:
        """Return the batches of this process; None where others have one more and all go in step.

        Batches of about one size are computed at a time.
        """
        if self.size == 1:
            return [*batches]
        ordered = sorted(batches, key=lambda batch: -batch.positions)
        own = ordered[self.rank :: self.size]
        missing = math.ceil(len(batches) / self.size) - len(own)
        return [*own, *([None] * (missing if self.sharded else 0))]

    def any(self, value: bool) -> bool:
        """Whether it is so in any of the processes."""
        if self.size == 1:
            return value
        found = torch.tensor([float(value)], device=_device())
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return bool(found.item())

    def shard(self, decoder: Any, layer_count: int, apart: Iterable[Tensor]) -> None:
        """Spread the weights of a decoder's layers over the processes, but for those `apart`."""
        from torch.distributed.fsdp import fully_shard

        lists = [it for it in decoder.modules() if isinstance(it, torch.nn.ModuleList) and len(it) == layer_count]
        if not lists:
            return
        mesh = init_device_mesh(_device().type, (self.size,))
        apart = set(apart)
        for layer in lists[0]:
            fully_shard(layer, mesh=mesh, ignored_params=apart & set(layer.parameters()))
        whole = {it for it in decoder.parameters() if not isinstance(it, DTensor)}
        fully_shard(decoder, mesh=mesh, ignored_params=whole)
        self.sharded = True

    def sum_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Have the sum of all processes' gradients in each of them."""
        if self.size == 1:
            return
        for parameter in parameters:
            if isinstance(parameter, DTensor):
                local(parameter.grad).mul_(self.size)  # FSDP has averaged them
        apart = [parameter.grad for parameter in parameters if not isinstance(parameter, DTensor)]
        if apart:
            flat = torch.cat([it.reshape(-1) for it in apart])
            dist.all_reduce(flat)
            for it, part in zip(apart, flat.split([it.numel() for it in apart]), strict=True):
                it.copy_(part.reshape(it.shape))

    def norm(self, gradients: list[Tensor]) -> float:
        """Return the norm of all gradients together."""
        norms = [torch.linalg.vector_norm(local(it), dtype=torch.float64) for it in gradients]
        if self.sharded:
            spread = [norm for norm, it in zip(norms, gradients, strict=True) if isinstance(it, DTensor)]
            if spread:
                square = torch.stack(spread).square().sum()
                dist.all_reduce(square)
                norms = [norm for norm, it in zip(norms, gradients, strict=True) if not isinstance(it, DTensor)]
                norms.append(square.sqrt())
        return float(torch.linalg.vector_norm(torch.stack(norms)))


def local(tensor: Any) -> Tensor:
    """Return what this process has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Any) -> Tensor:
    """Return all of a tensor on the CPU. Every process takes part."""
    found = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found.detach().to("cpu").contiguous()


def spread_like(tensor: Tensor, model: Tensor) -> Tensor:
    """Return a tensor on the device of another, spread over the processes as that is. Every process takes part."""
    if isinstance(model, DTensor):
        return distribute_tensor(tensor.to(model.device), model.device_mesh, model.placements)
    return tensor.to(model.device)


def _on_cuda() -> bool:
    return str(dist.get_backend()) == "nccl"


def _device() -> torch.device:
    return torch.device("cuda" if _on_cuda() else "cpu")
