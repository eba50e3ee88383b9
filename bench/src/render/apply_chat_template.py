"""What `fulgurite-bench render` holds itself against: Hugging Face's apply_chat_template, asked over standard input."""

import json
import sys
import time

from transformers import AutoTokenizer


def shaped(messages):
    """OpenAI's wire has a call's arguments as a string of JSON; templates are written for the object in it."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


def renderable(messages, options):
    """The messages with arguments as objects, or with strings for a template that adds them to its text."""
    try:
        tokenizer.apply_chat_template(shaped(messages), **options)
        return shaped(messages)
    except TypeError:
        return messages


tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    options = {"tools": request["tools"] or None, "add_generation_prompt": True, "tokenize": request["tokenize"]}
    if request["tokenize"]:
        options["return_dict"] = False
    messages = renderable(request["messages"], options)
    seconds = []
    for _ in range(request["repeat"]):
        start = time.perf_counter()
        rendered = tokenizer.apply_chat_template(messages, **options)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "rendered": rendered}), flush=True)
