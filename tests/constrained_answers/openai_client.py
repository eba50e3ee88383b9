"""OpenAI's own client, told nothing of any proxy, asks for objects and calls. Prints what it got as JSON.

usage: openai_client.py BASE_URL MODEL
"""

import json
import sys
from typing import Literal

import openai
from pydantic import BaseModel, Field

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = sys.argv[2]
messages = [{"role": "user", "content": "Rain in Paris?"}]


class Weather(BaseModel):
    """Tells the weather."""

    city: str = Field(max_length=8)
    days: int = Field(ge=0, le=9)
    unit: Literal["celsius", "fahrenheit"]
    notes: list[bool] | None


tool = openai.pydantic_function_tool(Weather)


def parsed(choice):
    assert isinstance(choice.message.parsed, Weather), choice
    return choice.message.parsed.model_dump()


def called(choice):
    assert choice.finish_reason == "tool_calls", choice
    calls = choice.message.tool_calls
    assert all(isinstance(call.function.parsed_arguments, Weather) for call in calls), choice
    return [call.function.name for call in calls]


def streamed(**fields):
    with client.chat.completions.stream(model=model, messages=messages, **fields) as stream:
        for _event in stream:
            pass
        return stream.get_final_completion().choices[0]


def whole(**fields):
    return client.chat.completions.parse(model=model, messages=messages, **fields).choices[0]


named = {"type": "function", "function": {"name": "Weather"}}
response = client.responses.parse(model=model, input=messages, text_format=Weather)
response_call = client.responses.parse(
    model=model, input=messages, tools=[openai.pydantic_function_tool(Weather)["function"] | {"type": "function"}],
    tool_choice="required",
)
plain = client.chat.completions.create(model=model, messages=messages, response_format={"type": "json_object"}, max_tokens=2000)
try:
    unknown = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "colour"}}}
    client.chat.completions.create(model=model, messages=messages, response_format=unknown)
    refused = None
except openai.BadRequestError as error:
    refused = error.body["message"]
print(
    json.dumps(
        {
            "objects": [parsed(ask(response_format=Weather, seed=seed)) for ask in (whole, streamed) for seed in (1, 2)]
            + [response.output_parsed.model_dump()],
            "calls": [called(ask(tools=[tool], tool_choice="required", seed=3)) for ask in (whole, streamed)],
            "named": called(whole(tools=[tool], tool_choice=named, parallel_tool_calls=False)),
            "response_calls": [item.name for item in response_call.output if item.type == "function_call"],
            "plain": plain.choices[0].message.content[:1],
            "refused": refused,
        }
    )
)
