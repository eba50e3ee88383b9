"""The agent at a scripted server: the calls of a game, and the reward that is posted for each of them."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import agent
import game


class Scripted(BaseHTTPRequestHandler):
    """Answers a call with the next move of the script, and keeps what is posted."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, self.headers["authorization"], body))
        answer = {}
        if self.path.endswith("/chat/completions"):
            self.server.calls += 1
            message = {"role": "assistant", "content": self.server.script[self.server.calls - 1]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = {"id": f"chatcmpl-{self.server.calls}", "object": "chat.completion", "created": 0}
            answer |= {"model": "player", "choices": [choice]}
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
        """The agent's answer, and all that its server was sent."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        server.script, server.seen, server.calls = script, [], 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base_url = f"http://127.0.0.1:{server.server_port}/rollout/ro-1/attempt/at-1/v1"
        try:
            task = SimpleNamespace(input=number, base_url=base_url, api_key="key", rollout_id="ro-1")
            return agent.run(task), server.seen
        finally:
            server.shutdown()
            server.server_close()

    def test_each_call_is_rewarded_for_its_own_side_with_the_attempts_key(self):
        result, seen = self.play(0, ["1", "4", "2", "5", "3"])
        self.assertEqual((result["reward"], result["x_won"]), (0.0, 1.0))
        given = [(path, key, body["value"]) for path, key, body in seen if path.endswith("/reward")]
        values = [game.FADE**2, -game.FADE, game.FADE, -1.0, 1.0]
        wanted = [
            (f"/rollout/ro-1/generation/chatcmpl-{number}/reward", "Bearer key", value)
            for number, value in enumerate(values, start=1)
        ]
        self.assertEqual(given, wanted)

    def test_games_against_an_opponent_are_rewarded_as_a_whole_alone(self):
        result, seen = self.play(100, ["no move"])
        self.assertEqual((result["reward"], result["illegal"]), (0.0, 1.0))
        self.assertFalse([path for path, _, _ in seen if path.endswith("/reward")])

    def test_every_call_shows_the_board_alone(self):
        _, seen = self.play(0, ["1", "1"])
        shown = [body["messages"] for path, _, body in seen if path.endswith("/chat/completions")]
        self.assertEqual([len(messages) for messages in shown], [1, 1])
        self.assertTrue(shown[1][0]["content"].endswith("\nX 2 3\n4 5 6\n7 8 9"))


if __name__ == "__main__":
    unittest.main()
