"""An agent that is written with Anthropic's own package and knows nothing of any proxy. It prints what it saw as JSON.
usage: anthropic_agent.py whole|streamed"""

import json
import sys

import anthropic

client = anthropic.Anthropic(max_retries=0)
streamed = sys.argv[1] == "streamed"
request = {
    "model": "tiny",
    "max_tokens": 2000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop_sequences": ["HALT"],
    "tools": [
        {
            "name": "weather",
            "description": "Tells the weather.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ],
}
replies = []


def ask(messages):
    if streamed:
        with client.messages.stream(**request, messages=messages) as stream:
            streamed_text = "".join(stream.text_stream)
            message = stream.get_final_message()
        assert streamed_text == "".join(block.text for block in message.content if block.type == "text")
    else:
        message = client.messages.create(**request, messages=messages)
    assert streamed or message._request_id
    known = ("type", "thinking", "text", "name", "input")
    content = [{key: getattr(block, key) for key in known if hasattr(block, key)} for block in message.content]
    assert all(block.signature for block in message.content if block.type == "thinking")
    replies.append([message.stop_reason, message.stop_sequence, message.usage.output_tokens, content])
    return message


def work(task):
    messages = [{"role": "user", "content": task}]
    while True:
        message = ask(messages)
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            return
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"{block.name} {json.dumps(block.input)}"}
            for block in message.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})


def failure(messages):
    try:
        ask(messages)
    except anthropic.APIStatusError as error:
        return error.body["error"]


work("Rain in Paris?")
question = [{"role": "user", "content": "Well?"}]
for _ in range(4):
    ask(question)
print(
    json.dumps(
        {
            "replies": replies,
            "models": [model.id for model in client.models.list()],
            "counted": client.messages.count_tokens(
                **{key: request[key] for key in ("model", "system", "tools")}, messages=question
            ).input_tokens,
            "too_long": failure([{"role": "user", "content": "17 " * 4096}]),
            "broken": failure(question),
        }
    )
)
