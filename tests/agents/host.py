"""A vLLM server whose model is a script, of a directory's tokenizer. usage: host.py DIRECTORY READY_FILE SCRIPT

The script is a module of the folder scripts: what `answer` makes of a prompt's text is said, and whether that breaks off in its middle.
"""

import importlib
import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tokenizers import Tokenizer

TOKENIZER = Tokenizer.from_file(f"{sys.argv[1]}/tokenizer.json")
sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))
SCRIPT = importlib.import_module(sys.argv[3])
STOP = TOKENIZER.token_to_id("<|im_end|>")


class Host(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

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
        self.reply({"object": "list", "data": [{"id": "tiny", "object": "model", "max_model_len": 262144}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/completions":
            self.reply({"error": {"message": "there is no such route"}}, 404)
            return
        text, breaks = SCRIPT.answer(TOKENIZER.decode(request["prompt"], skip_special_tokens=False))
        tokens = [*TOKENIZER.encode(text, add_special_tokens=False).ids, STOP]
        limit = request.get("max_tokens") or len(tokens)
        end = "stop" if len(tokens) <= limit else "length"
        tokens = tokens[:limit]

        def completion(part, is_first, end):
            names = [f"token_id:{token}" for token in part]
            choice = {
                "index": 0,
                "text": TOKENIZER.decode(part),
                "finish_reason": end,
                "stop_reason": None,
                "token_ids": part,
                "prompt_token_ids": request["prompt"] if is_first else None,
                "logprobs": {
                    "text_offset": [0] * len(part),
                    "token_logprobs": [-0.5] * len(part),
                    "tokens": names,
                    "top_logprobs": [{name: -0.5} for name in names],
                },
            }
            return {"id": "cmpl", "object": "text_completion", "created": 1, "model": "tiny", "choices": [choice]}

        if not request.get("stream"):
            self.reply(completion(tokens, True, end))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

        def event(data):
            data = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        for place, token in enumerate(tokens):
            if breaks and place == len(tokens) // 2:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            event(json.dumps(completion([token], place == 0, end if place + 1 == len(tokens) else None)))
        event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # A caller that has all it wants may leave before the end.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Host)
Path(sys.argv[2]).write_text(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
