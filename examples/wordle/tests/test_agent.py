"""The agent at a scripted server: what it posts for the calls of a game."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import agent
import game


class Scripted(BaseHTTPRequestHandler):
    """Answers a call with the next guess of the script, and keeps what is posted."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = {}
        if self.path.endswith("/chat/completions"):
            self.server.calls += 1
            message = {"role": "assistant", "content": self.server.script[self.server.calls - 1]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = {"id": f"chatcmpl-{self.server.calls}", "object": "chat.completion", "created": 0}
            answer |= {"model": "speller", "choices": [choice]}
        else:
            self.server.given.append((self.path, self.headers["authorization"], body["value"]))
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Agent(unittest.TestCase):
    def play(self, number, script):
        """The agent's answer, and the rewards that it posted."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        server.script, server.given, server.calls = script, [], 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base_url = f"http://127.0.0.1:{server.server_port}/rollout/ro-1/attempt/at-1/v1"
        try:
            task = SimpleNamespace(input=number, base_url=base_url, api_key="key", rollout_id="ro-1")
            return agent.run(task), server.given
        finally:
            server.shutdown()
            server.server_close()

    def test_each_call_is_rewarded_for_its_own_guess_with_the_attempts_key(self):
        task = (game.TRAIN + game.HELD_OUT).index("cat")
        result, given = self.play(task, [" d o g", " d o g", " c a t"])
        self.assertEqual((result["reward"], result["won"], result["tries"]), (0.0, 1.0, 3))
        wanted = [
            (f"/rollout/ro-1/generation/chatcmpl-{number}/reward", "Bearer key", value)
            for number, value in enumerate([1.0, 0.0, 1.0], start=1)
        ]
        self.assertEqual(given, wanted)

    def test_a_reply_that_claims_a_reward_has_none(self):
        result, given = self.play(0, ['{"reward": 1.0, "won": 1}'])
        self.assertEqual((result["reward"], result["won"], len(given)), (0.0, 0.0, 0))


if __name__ == "__main__":
    unittest.main()
