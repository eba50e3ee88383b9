"""Anthropic's own client, told nothing of any proxy, asks for calls and objects. Prints what it got as JSON.

usage: anthropic_client.py BASE_URL MODEL
"""

import json
import sys
from typing import Literal

import anthropic
from pydantic import BaseModel

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
request = {"model": sys.argv[2], "max_tokens": 8000, "messages": [{"role": "user", "content": "Rain in Paris?"}]}
tools = [{"name": name, "description": "Tells it.", "input_schema": schema} for name in ("weather", "time")]


class Weather(BaseModel):
    unit: Literal["celsius", "fahrenheit"]
    rains: bool


def called(message):
    assert message.stop_reason == "tool_use", message
    assert all(block.type == "tool_use" and set(block.input) == {"city", "days"} for block in message.content), message
    return [block.name for block in message.content]


any_tool = client.messages.create(**request, tools=tools, tool_choice={"type": "any"})
with client.messages.stream(**request, tools=tools, tool_choice={"type": "any"}) as stream:
    streamed = stream.get_final_message()
named = {"type": "tool", "name": "time", "disable_parallel_tool_use": True}
one = client.messages.create(**request, tools=tools, tool_choice=named)
output = client.messages.create(**request, output_config={"format": {"type": "json_schema", "schema": schema}})
parsed = client.messages.parse(**request, output_format=Weather).parsed_output
assert isinstance(parsed, Weather), parsed
print(
    json.dumps(
        {
            "calls": [called(any_tool), called(streamed)],
            "named": called(one),
            "object": json.loads(output.content[0].text),
            "parsed": parsed.model_dump(),
        }
    )
)
