"""A host whose model reads its answers from a script: vLLM's wire, as far as Fulgurite speaks it, and a tokenizer of
bytes.

    python3 scripted_model.py DIRECTORY READY_FILE SCRIPT

makes a tokenizer and a template in DIRECTORY, listens at a free port and writes its URL to READY_FILE. SCRIPT is a file
of JSON: a list of answers, each a text or a list of calls `{"name": ..., "arguments": {...}}`; `arguments` may be a
text, which is then written as it stands, right or wrong. An answer `{"hold": FILE, "then": ...}` waits while there is
such a file, and says so by making FILE.reached. The answer that is given is the one that the conversation has come to,
and the last one ever after. A script that is an object has such a list for each text that stands in the conversation.
"""

import contextlib
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CONTEXT = 1 << 20


def letters():
    """What stands for each byte in a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + place) for place, byte in enumerate(others)}


def make_tokenizer(directory):
    """A token for each byte, and three more."""
    directory.mkdir(parents=True, exist_ok=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    vocabulary = {letter: byte for byte, letter in letters().items()}
    specials = [
        {
            "id": 256 + place,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for place, text in enumerate(SPECIALS)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": specials,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[0],
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(
        json.dumps({"vocab_size": 256 + len(SPECIALS), "max_position_embeddings": CONTEXT})
    )


def reply_text(answer):
    """An answer of the script as the model says it."""
    if isinstance(answer, dict):
        hold = Path(answer["hold"])
        Path(f"{hold}.reached").touch()
        while hold.exists():
            time.sleep(0.02)
        return reply_text(answer["then"])
    if isinstance(answer, str):
        return answer
    return "\n".join(f"<tool_call>\n{_call(call)}\n</tool_call>" for call in answer)


def _call(call):
    arguments = call["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'{{"name": {json.dumps(call["name"])}, "arguments": {text}}}'


def answer(script, prompt):
    """What is said after a prompt of tokens."""
    text = b"".join(bytes([token]) if token < 256 else SPECIALS[token - 256].encode() for token in prompt).decode()
    if isinstance(script, dict):
        script = next((answers for words, answers in script.items() if words in text), ["I have no script for this."])
    turns = text.count("<|im_start|>assistant\n") - 1
    return reply_text(script[min(turns, len(script) - 1)])


class Host(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *_):
        pass

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "clerk", "object": "model", "max_model_len": CONTEXT}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/completions":
            self.reply({"error": {"message": "there is no such route"}}, 404)
            return
        tokens = [*answer(self.script, request["prompt"]).encode(), 258]
        limit = request.get("max_tokens") or len(tokens)
        end = "stop" if len(tokens) <= limit else "length"
        body = completion(tokens[:limit], request["prompt"], end)
        if not request.get("stream"):
            self.reply(body)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        # Who asked may have been killed meanwhile.
        with contextlib.suppress(OSError):
            for data in (json.dumps(body), "[DONE]"):
                event = f"data: {data}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")


def completion(tokens, prompt, end):
    names = [f"token_id:{token}" for token in tokens]
    choice = {
        "index": 0,
        "text": bytes(token for token in tokens if token < 256).decode("utf-8", "replace"),
        "finish_reason": end,
        "stop_reason": None,
        "token_ids": tokens,
        "prompt_token_ids": prompt,
        "logprobs": {
            "text_offset": [0] * len(tokens),
            "token_logprobs": [-0.5] * len(tokens),
            "tokens": names,
            "top_logprobs": [{name: -0.5} for name in names],
        },
    }
    return {"id": "cmpl", "object": "text_completion", "created": 1, "model": "clerk", "choices": [choice]}


def main():
    directory, ready, script = (Path(word) for word in sys.argv[1:])
    make_tokenizer(directory)
    Host.script = json.loads(script.read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    new = ready.with_suffix(".new")
    new.write_text(f"http://127.0.0.1:{server.server_port}")
    new.rename(ready)
    server.serve_forever()


if __name__ == "__main__":
    main()
