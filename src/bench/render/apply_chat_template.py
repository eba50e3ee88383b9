"""What `fulgurite bench render` holds itself against: Hugging Face's apply_chat_template, asked over standard input."""

import json
import sys
import time

from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    options = {"tools": asked["tools"] or None, "add_generation_prompt": True, "tokenize": asked["tokenize"]}
    if asked["tokenize"]:
        options["return_dict"] = False
    seconds = []
    for _ in range(asked["repeat"]):
        start = time.perf_counter()
        rendered = tokenizer.apply_chat_template(asked["messages"], **options)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "rendered": rendered}), flush=True)
