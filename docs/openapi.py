#!/usr/bin/env python3
"""Makes docs/reference/openapi.json of docs/openapi.toml and the Python client's records: docs/openapi.py [--check].

A test of the server holds the document to the routes. Needs Python 3.11.
"""

import argparse
import dataclasses
import importlib.util
import json
import re
import sys
import typing
from pathlib import Path
from types import NoneType, UnionType

import tomllib

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/reference/openapi.json"
# The records alone: the client around them needs httpx.
RECORDS = importlib.util.spec_from_file_location("records", ROOT / "python/fulgurite/client/records.py")
records = importlib.util.module_from_spec(RECORDS)
sys.modules["records"] = records
RECORDS.loader.exec_module(records)

REWARD_BODY = {
    "type": "object",
    "required": ["reward"],
    "properties": {
        "reward": {"type": "number"},
        "components": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "description": "More fields are in docs/how-to/rewards.md.",
}
KEYS = {
    "model calls": [{"admin": []}, {"attempt": []}, {"modelCalls": []}],
    "rollout": [{"admin": []}, {"attempt": []}],
    "admin": [{"admin": []}],
    "nothing": [],
}
SCHEMES = {
    "admin": "The admin key. A server without one takes calls from its own machine without any key",
    "attempt": "The key of one attempt, which its agent gets as OPENAI_API_KEY",
    "modelCalls": "A key that opens model calls and nothing else",
}


def schema(kind: object) -> dict:
    """A type of the client as JSON Schema."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if origin in (typing.Union, UnionType):
        return {"anyOf": [schema(one) for one in inner]}
    if origin is typing.Literal:
        return {"type": "string", "enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": schema(inner[0])}
    if origin is dict:
        values = schema(inner[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    plain = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}
    return {"type": plain[kind]} if kind in plain else {}


def record(kind: type) -> dict:
    types = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    properties = {f.name: schema(types[f.name]) for f in fields}
    text = (kind.__doc__ or "").strip().split("\n\n")[0]
    return {"type": "object", "description": text, "required": required, "properties": properties}


def schemas() -> dict:
    kinds = [kind for kind in vars(records).values() if dataclasses.is_dataclass(kind)]
    return {"RewardBody": REWARD_BODY} | {kind.__name__: record(kind) for kind in kinds}


def content(name: str | None) -> dict:
    if name is None:
        return {"application/json": {"schema": {}}}
    one = {"$ref": f"#/components/schemas/{name.strip('[]')}"}
    return {"application/json": {"schema": {"type": "array", "items": one} if name.startswith("[") else one}}


def operation(group: dict, method: str, path: str, route: object) -> dict:
    described = {"summary": route} if isinstance(route, str) else route
    made = {"tags": [group["name"]], "summary": described["summary"], "security": KEYS[group["key"]]}
    names = re.findall(r"\{(\w+)\}", path)
    if names:
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if method in ("POST", "PUT", "PATCH"):
        made["requestBody"] = {"content": content(described.get("request"))}
    made["responses"] = {
        "2XX": {"description": "What is asked for", "content": content(described.get("response"))},
        "default": {"description": "A mistake, in the shape of the route's API"},
    }
    return made


def document() -> dict:
    groups = tomllib.loads((ROOT / "docs/openapi.toml").read_text())["group"]
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    paths: dict[str, dict] = {}
    for group in groups:
        for line, route in group["routes"].items():
            method, _, path = line.partition(" ")
            whole = group["base"] + path
            paths.setdefault(whole, {})[method.lower()] = operation(group, method, whole, route)
            if "below" in group:
                paths[whole]["x-fulgurite-also-at"] = [base + path for base in group["below"]]
    tags = [
        {"name": group["name"], "description": group["text"], "externalDocs": {"url": group["page"]}} for group in groups
    ]
    schemes = {name: {"type": "http", "scheme": "bearer", "description": text} for name, text in SCHEMES.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fulgurite",
            "version": version,
            "description": "Routes of `fulgurite serve`. `x-fulgurite-also-at` lists further paths of the same route.",
        },
        "servers": [{"url": "http://127.0.0.1:4747"}],
        "tags": tags,
        "paths": paths,
        "components": {"securitySchemes": schemes, "schemas": schemas()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the document is what it would write")
    text = json.dumps(document(), indent=1, ensure_ascii=False) + "\n"
    if not parser.parse_args().check:
        DOCUMENT.write_text(text)
    elif DOCUMENT.read_text() != text:
        sys.exit("error: docs/reference/openapi.json is not what docs/openapi.toml makes\nhelp: docs/openapi.py writes it")


main()
