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
    asked = json.loads(line)
    options = {"tools": asked["tools"] or None, "add_generation_prompt": True, "tokenize": asked["tokenize"]}
    if asked["tokenize"]:
        options["return_dict"] = False
    messages = renderable(asked["messages"], options)
    seconds = []
    for _ in range(asked["repeat"]):
        start = time.perf_counter()
        rendered = tokenizer.apply_chat_template(messages, **options)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "rendered": rendered}), flush=True)
