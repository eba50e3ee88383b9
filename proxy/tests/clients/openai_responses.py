"""A tool-calling agent on OpenAI's own client of the Responses API.

usage: openai_responses.py BASE_URL...

Asks in each way, of one server each: for whole responses, for a stream whose events it reads, and for one that the
client adds up; the conversation goes on from the items of all responses, or from the previous response by its id.
Prints what each way said as a JSON list.
"""

import json
import sys

from openai import OpenAI

TOOL = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    "strict": False,
}
REQUEST = {
    "model": "tiny",
    "instructions": "Add with the tool.",
    "tools": [TOOL],
    "store": False,
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
}

streamed_text = []


def created(client, **fields):
    return client.responses.create(**REQUEST, **fields)


def of_events(client, **fields):
    kinds, numbers, items = set(), [], []
    for event in client.responses.create(**REQUEST, **fields, stream=True):
        kinds.add(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_item.done":
            items.append(event.item.to_dict())
        if event.type == "response.output_text.delta":
            streamed_text.append(event.delta)
    assert numbers == list(range(len(numbers))), numbers
    assert "response.reasoning_text.delta" in kinds, kinds
    assert event.type == "response.completed", event.type
    assert items == event.response.to_dict()["output"]
    return event.response


def streamed(client, **fields):
    with client.responses.stream(**REQUEST, **fields) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                streamed_text.append(event.delta)
        return stream.get_final_response()


def talk(client, ask, goes_on):
    streamed_text.clear()
    conversation = [{"role": "user", "content": "17 + 4, and 1 + 2 and 3 + 4 then?"}]
    texts = []
    fields = {"input": conversation}
    while True:
        response = ask(client, **fields)
        assert response.status == "completed", response
        assert response.usage.output_tokens > response.usage.output_tokens_details.reasoning_tokens > 0
        texts.append(response.output_text)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        results = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": str(sum(json.loads(call.arguments).values())),
            }
            for call in calls
        ]
        if goes_on == "items":
            conversation += response.output + results
        else:
            fields = {"input": results, "previous_response_id": response.id}
    assert ask is created or "".join(streamed_text) == "".join(texts)
    logprobs = response.output[-1].content[0].logprobs
    assert b"".join(bytes(entry.bytes) for entry in logprobs).decode() == texts[-1], logprobs
    return texts


WAYS = [(ask, goes_on) for ask in (created, of_events, streamed) for goes_on in ("items", "previous")]
print(json.dumps([talk(OpenAI(base_url=url), *way) for url, way in zip(sys.argv[1:], WAYS, strict=True)]))
