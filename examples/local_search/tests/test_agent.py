"""The agent at a scripted server: what it sends, and that a search comes back to the model as a tool's result."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import agent
from pages import LIBRARY, question


def look(query):
    function = {"name": "search", "arguments": json.dumps({"query": query})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


class Scripted(BaseHTTPRequestHandler):
    """Answers a call with the next message of the script, and keeps what it was sent."""

    def do_POST(self):
        self.server.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        choice = {"index": 0, "message": self.server.script[len(self.server.seen) - 1], "finish_reason": "stop"}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "reader", "choices": [choice]}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Agent(unittest.TestCase):
    def test_two_searches_and_an_answer(self):
        chosen = question(0)
        first, second = chosen.path
        server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        server.script = [look(first), look(second), {"role": "assistant", "content": chosen.answer}]
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base_url = f"http://127.0.0.1:{server.server_port}/rollout/ro-1/attempt/at-1/v1"
        try:
            result = agent.run(SimpleNamespace(input=0, base_url=base_url, api_key="key"))
        finally:
            server.shutdown()
            server.server_close()
        self.assertEqual((result["reward"], result["searches"], result["tool_errors"]), (1.0, 2, 0))
        messages = server.seen[-1]["messages"]
        self.assertEqual([message["role"] for message in messages], ["user", "assistant", "tool", "assistant", "tool"])
        self.assertEqual(messages[1]["tool_calls"], look(first)["tool_calls"])
        self.assertEqual((messages[2]["content"], messages[4]["content"]), (LIBRARY.pages[first], LIBRARY.pages[second]))
        self.assertEqual(server.seen[0]["tools"][0]["function"]["name"], "search")


if __name__ == "__main__":
    unittest.main()
