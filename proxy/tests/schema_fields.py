"""Writes the names of the fields that each API's requests have, and the values of those that have few.

usage: schema_fields.py --vllm WHEEL_OR_DIRECTORY [--openapi openapi.json] > it/dialects/schema_fields.json

OpenAI's and Anthropic's come from their Python packages, in the environment that runs this; vLLM's from its source, which is
read and not run; with `--openapi`, OpenAI's own description is added to the former.
"""

import argparse
import ast
import importlib
import importlib.metadata
import json
import typing
import zipfile
from pathlib import Path

# By endpoint: the package, and the module and class of its parameters.
PACKAGES = {
    "chat/completions": [("openai", "openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming")],
    "completions": [("openai", "openai.types.completion_create_params", "CompletionCreateParamsStreaming")],
    "responses": [("openai", "openai.types.responses.response_create_params", "ResponseCreateParamsStreaming")],
    "messages": [
        ("anthropic", "anthropic.types.message_create_params", "MessageCreateParamsStreaming"),
        ("anthropic", "anthropic.types.beta.message_create_params", "MessageCreateParamsStreaming"),
    ],
}
OPENAPI = {
    "chat/completions": "CreateChatCompletionRequest",
    "completions": "CreateCompletionRequest",
    "responses": "CreateResponse",
}
VLLM = {
    "chat/completions": ("vllm/entrypoints/openai/chat_completion/protocol.py", "ChatCompletionRequest"),
    "completions": ("vllm/entrypoints/openai/completion/protocol.py", "CompletionRequest"),
    "responses": ("vllm/entrypoints/openai/responses/protocol.py", "ResponsesRequest"),
}
# Fields whose words are only examples.
OPEN = ["betas", "model"]


def literals(hint):
    """The words that a type allows, wherever they stand in it."""
    if typing.get_origin(hint) is typing.Literal:
        return {value for value in typing.get_args(hint) if isinstance(value, str)}
    return {value for part in typing.get_args(hint) for value in literals(part)}


def of_package(package, module, name):
    hints = typing.get_type_hints(getattr(importlib.import_module(module), name))
    values = {field: sorted(literals(hint)) for field, hint in hints.items()}
    return {
        "source": f"{package}: {module}",
        "version": importlib.metadata.version(package),
        "fields": sorted(hints),
        "values": {field: words for field, words in sorted(values.items()) if words and field not in OPEN},
    }


def of_openapi(file, name):
    described = json.loads(Path(file).read_text())
    schemas = described["components"]["schemas"]

    def properties(schema):
        if "$ref" in schema:
            return properties(schemas[schema["$ref"].rsplit("/", 1)[-1]])
        parts = [part for kind in ("allOf", "anyOf", "oneOf") for part in schema.get(kind, [])]
        return set(schema.get("properties", {})).union(*map(properties, parts))

    return {
        "source": f"openai/openai-openapi: {name}",
        "version": described["info"]["version"],
        "fields": sorted(properties(schemas[name])),
        "values": {},
    }


class Vllm:
    """vLLM's source, in a wheel or in a directory."""

    def __init__(self, place):
        self.place = Path(place)
        self.wheel = None if self.place.is_dir() else zipfile.ZipFile(place)

    def version(self):
        if self.wheel:
            return self.place.name.split("-")[1]
        return next(self.place.glob("vllm-*.dist-info")).name.split("-")[1].removesuffix(".dist")

    def text(self, path):
        return self.wheel.read(path).decode() if self.wheel else (self.place / path).read_text()

    def fields(self, path, name):
        body = next(node.body for node in ast.parse(self.text(path)).body
                    if isinstance(node, ast.ClassDef) and node.name == name)
        names = (line.target.id for line in body if isinstance(line, ast.AnnAssign))
        return {
            "source": f"vllm: {path}",
            "version": self.version(),
            "fields": sorted(name for name in names if not name.startswith("_")),
            "values": {},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", required=True, help="a wheel of vLLM, or a directory with its package")
    parser.add_argument("--openapi", help="OpenAI's openapi.json")
    given = parser.parse_args()
    vllm = Vllm(given.vllm)
    schemas = {endpoint: [of_package(*place) for place in places] for endpoint, places in PACKAGES.items()}
    for endpoint, name in OPENAPI.items() if given.openapi else ():
        schemas[endpoint].append(of_openapi(given.openapi, name))
    for endpoint, place in VLLM.items():
        schemas[endpoint].append(vllm.fields(*place))
    print(json.dumps(schemas, indent=1))


main()
