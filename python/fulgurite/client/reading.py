"""From JSON to records: checked once, here, so that a wrong answer is an error that names its field."""

from __future__ import annotations

import base64
import sys
import types
from array import array
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fulgurite.client.records import Generation, Reward

T = TypeVar("T")


class MistakeError(ValueError):
    """A value is not what its field needs."""


def read(kind: type[T], value: object, place: str = "") -> T:
    """Return a value of JSON as one of this type: a record, a list of them, or plain JSON.

    Raises MistakeError with the place of what does not fit.
    """
    return cast("T", _read(kind, value, place))


def _read(kind: Any, value: object, place: str) -> object:
    if kind is Any or kind is object:
        return value
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(_object(value, place), place)
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, _object(value, place), place)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(next(one for one in arguments if one is not type(None)), value, place)
    if origin is Literal:
        if value not in arguments:
            raise MistakeError(f"{place or 'it'} is {value!r}, not one of {', '.join(map(str, arguments))}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise _wrong(place, "a list", value)
        return [_read(arguments[0], item, f"{place}[{index}]") for index, item in enumerate(value)]
    if origin is dict:
        items = _object(value, place)
        return {key: _read(arguments[1], item, f"{place}.{key}") for key, item in items.items()}
    is_number = kind is float and isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number:
        return float(cast("float", value))
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(place, kind.__name__, value)
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _record(kind: Any, value: dict[str, Any], place: str) -> object:
    found: dict[str, object] = {}
    for one in fields(kind):
        inner = f"{place}.{one.name}" if place else one.name
        if one.name in value:
            found[one.name] = _read(_hints(kind)[one.name], value[one.name], inner)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise MistakeError(f"{inner} is missing")
    return kind(**found)


def _reward(value: dict[str, Any], place: str) -> Reward:
    inner = _object(value.get("reward"), f"{place}.reward".lstrip("."))
    pairs = inner.get("components", [])
    components = dict(pairs) if isinstance(pairs, list) else pairs
    flat = {**value, "giver": value.get("giver"), **inner, "components": components}
    return cast("Reward", _record(Reward, flat, place))


def _generation(value: dict[str, Any], place: str) -> Generation:
    unpacked = {
        "prompt_tokens": _words("I", value.get("prompt_tokens"), "prompt_tokens"),
        "sampled_tokens": _words("I", value.get("sampled_tokens"), "sampled_tokens"),
        "logprobs": None if value.get("logprobs") is None else _words("f", value["logprobs"], "logprobs"),
    }
    generation = cast("Generation", _record(Generation, {**value, **unpacked}, place))
    if generation.logprobs is not None and len(generation.logprobs) != len(generation.sampled_tokens):
        counts = f"{len(generation.logprobs)} of them for {len(generation.sampled_tokens)} sampled tokens"
        raise MistakeError(f"logprobs: {counts}")
    return generation


# What comes in another shape than it has here.
_READERS: dict[Any, Callable[[dict[str, Any], str], object]] = {Reward: _reward, Generation: _generation}


def _words(code: Literal["I", "f"], text: object, place: str) -> list[Any]:
    """Unpack base64 of little-endian words of four bytes."""
    if not isinstance(text, str):
        raise _wrong(place, "text", text)
    words = array(code)
    try:
        words.frombytes(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MistakeError(f"{place}: {error}") from None
    if sys.byteorder == "big":
        words.byteswap()
    return words.tolist()


def _object(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    return value


def _wrong(place: str, kind: str, value: object) -> MistakeError:
    return MistakeError(f"{place or 'it'} must be {kind}, and is {type(value).__name__}")
