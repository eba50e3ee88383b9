"""Directories of weights, which appear whole or not at all, with the digests of their files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fulgurite.learner.protocol import Fault, LearnerError

DIGEST_LIST = "fulgurite.sha256"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
WEIGHTS = "model.safetensors"
OPTIMIZER = "optimizer.state"
"""In the format of safetensors, but not by its name: vLLM and SGLang take every such file for weights."""
FORMER_OPTIMIZER = "optimizer.safetensors"
FIRST_MOMENT = "first_moment."
SECOND_MOMENT = "second_moment."
STEPS = "steps"

_COPIED = (
    "tokenizer",
    "generation_config",
    "chat_template",
    "special_tokens_map",
    "added_tokens",
    "vocab.",
    "merges.",
    "preprocessor_config",
)
"""Beginnings of the names of files that make weights a model, and that training does not change."""


class NewDirectory:
    """A directory under its temporary name."""

    def __init__(self, partial: Path) -> None:
        """Begin with no files."""
        self.partial = partial
        self._digests: dict[str, str] = {}

    def write(self, name: str, content: bytes) -> None:
        """Write a file, durably."""
        path = self.partial / name
        path.write_bytes(content)
        self._written(name)

    def write_tensors(self, name: str, tensors: dict[str, Tensor]) -> None:
        """Write a file of tensors, durably."""
        save_file(tensors, self.partial / name, metadata={"format": "pt"})
        self._written(name)

    def copy_tokenizer(self, source: Path) -> None:
        """Copy what makes weights a model."""
        for path in sorted(source.iterdir()):
            if path.is_file() and path.name.startswith(_COPIED):
                shutil.copyfile(path, self.partial / path.name)
                self._written(path.name)

    def write_digests(self) -> None:
        """Write the list of the files' digests, as `sha256sum` has it."""
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._digests.items())]
        path = self.partial / DIGEST_LIST
        path.write_text("".join(lines))
        _sync(path)

    def _written(self, name: str) -> None:
        path = self.partial / name
        _sync(path)
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
        self._digests[name] = digest.hexdigest()


@contextmanager
def new_directory(directory: Path) -> Iterator[NewDirectory]:
    """Write a directory that must not exist yet."""
    partial = directory.with_name(directory.name + ".partial")
    try:
        if directory.exists():
            raise FileExistsError("it exists already")
        if partial.exists():  # a crash left it
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        new = NewDirectory(partial)
        yield new
        new.write_digests()
        _sync(partial)
        partial.rename(directory)
        _sync(directory.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise LearnerError(Fault.FILES, f"cannot be written: {error}", str(directory)) from error


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file."""
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LearnerError(Fault.FILES, f"cannot be read: {error}", str(path)) from error
    if not isinstance(fields, dict):
        raise LearnerError(Fault.FILES, "does not hold an object", str(path))
    return fields


def tensor_names(directory: Path, name: str) -> set[str]:
    """Return the names of a file's tensors."""
    path = directory / name
    try:
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except (OSError, SafetensorError) as error:
        raise LearnerError(Fault.FILES, f"cannot be read: {error}", str(path)) from error


def read_tensors(directory: Path, name: str, shapes: dict[str, torch.Size], prefix: str = "") -> dict[str, Tensor]:
    """Return tensors of a file, or of the files that its index names, each of which must be there in its shape."""
    index = directory / f"{name}.index.json"
    names = sorted(set(read_json(index)["weight_map"].values())) if index.exists() else [name]
    found: dict[str, Tensor] = {}
    for part in names:
        path = directory / part
        try:
            with safe_open(path, "pt") as file:
                for key in file.keys():  # noqa: SIM118
                    if key.startswith(prefix) and key.removeprefix(prefix) in shapes:
                        found[key.removeprefix(prefix)] = file.get_tensor(key)
        except (OSError, SafetensorError) as error:
            raise LearnerError(Fault.FILES, f"cannot be read: {error}", str(path)) from error
    for key, shape in shapes.items():
        if key not in found:
            raise LearnerError(Fault.FILES, f"the tensor {prefix}{key} is missing", str(directory / name))
        if found[key].shape != shape:
            message = f"the shape of {prefix}{key} is {list(found[key].shape)}, but must be {list(shape)}"
            raise LearnerError(Fault.FILES, message, str(directory / name))
    return found


def read_steps(path: Path) -> int:
    """Return how many steps an optimizer's state has behind it."""
    try:
        with safe_open(path, "pt") as file:
            return int(file.get_tensor(STEPS))
    except (OSError, SafetensorError) as error:
        raise LearnerError(Fault.FILES, f"cannot be read: {error}", str(path)) from error
