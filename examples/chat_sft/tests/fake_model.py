"""A server that answers every chat completion alike, for tests of agents; other recipes have it, too."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


class FakeModel:
    def __init__(self, reply, finish_reason="stop"):
        self.requests, self.keys = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                outer.keys.append(self.headers["authorization"])
                choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": finish_reason}
                body = json.dumps({"choices": [choice], "usage": {"completion_tokens": 7}}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def fields(model, task):
    """What an agent's `run` is given."""
    return SimpleNamespace(input=task, base_url=model.url, api_key="key", timeout_seconds=10)
