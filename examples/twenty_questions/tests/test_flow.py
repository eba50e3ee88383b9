"""The Flow, against a host of models that reads its answers from a script. Needs what requirements.txt lists."""

import argparse
import importlib.util
import itertools
import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Host:
    """Answers chat completions: of each model the next message of its script, the last one again and again."""

    def __init__(self, **scripts):
        self.calls = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                host.calls.append(body)
                script = scripts[body["model"]]
                message = script.pop(0) if len(script) > 1 else script[0]
                if isinstance(message, str):
                    message = {"role": "assistant", "content": message}
                ended = "tool_calls" if "tool_calls" in message else "stop"
                choice = {"index": 0, "message": message, "finish_reason": ended}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                completion = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
                answer = json.dumps({**completion, "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@unittest.skipUnless(importlib.util.find_spec("crewai"), "crewai is not installed")
class Flows(unittest.TestCase):
    def play(self, noun, answerer=None, search=False, turns=20, **scripts):
        import agent

        host = Host(**scripts)
        self.addCleanup(host.close)
        options = argparse.Namespace(player="player", answerer=answerer, search=search, question_tokens=16)
        return agent.play(noun, options, host.url, "key", turns), host.calls

    def test_a_game_is_won_and_every_call_goes_on_from_the_one_before(self):
        questions = ["Is it a mammal?", " Does it bark at the moon?", "Is it a cat?", "Is it a dog?"]
        earned, calls = self.play("dog", player=list(questions))
        self.assertEqual((earned["won"], earned["turns"], earned["not_understood"]), (1.0, 4, 0.25))
        self.assertEqual(len(calls), 4)
        for before, after in itertools.pairwise(calls):
            self.assertEqual(after["messages"][: len(before["messages"])], before["messages"])
        texts = [each["content"] for each in calls[-1]["messages"][4:]]
        self.assertEqual(texts, [questions[0], "yes", questions[1], "n/a", questions[2], "no"])
        self.assertNotIn("dog", json.dumps(calls[-1]))

    def test_a_game_is_lost(self):
        earned, calls = self.play("dog", player=["Is it a cat?"])
        self.assertEqual((earned["won"], earned["turns"], len(calls)), (0.0, 20, 20))
        earned, calls = self.play("dog", turns=10, player=["Is it a cat?"])
        self.assertEqual((earned["won"], earned["turns"], len(calls)), (0.0, 10, 10))

    def test_a_model_answers_by_the_schema_and_the_player_never_sees_why(self):
        answers = [
            json.dumps({"brief_reason": "dogs are", "yes_or_no": "yes", "correct": False}),
            json.dumps({"brief_reason": "close enough", "yes_or_no": "yes", "correct": True}),
            json.dumps({"brief_reason": "it is", "yes_or_no": "yes", "correct": True}),
        ]
        questions = ["Is it friendly?", "Is it a wolf?", "Is it a dog?"]
        earned, calls = self.play("dog", answerer="oracle", player=questions, oracle=answers)
        self.assertEqual((earned["won"], earned["turns"], earned["contradicted"]), (1.0, 3, 1))
        requests = [each for each in calls if each["model"] == "oracle"]
        schema = requests[0]["response_format"]["json_schema"]["schema"]
        self.assertEqual(set(schema["properties"]), {"brief_reason", "yes_or_no", "correct"})
        self.assertIn("dog", requests[0]["messages"][0]["content"])
        self.assertNotIn("dogs are", json.dumps([each for each in calls if each["model"] == "player"]))

    def test_a_search_costs_a_turn_and_tells_nothing_of_the_secret(self):
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "Does it have fur?"}'},
        }
        script = [{"role": "assistant", "content": None, "tool_calls": [call]}, "Is it a dog?"]
        earned, calls = self.play("dog", search=True, player=script)
        self.assertEqual((earned["won"], earned["searches"], earned["turns"]), (1.0, 1, 2))
        self.assertEqual(calls[0]["tools"][0]["function"]["name"], "search")
        found = [each["content"] for each in calls[1]["messages"] if each["role"] == "tool"]
        self.assertEqual(found, ["fur: bear, cat, cow, dog, horse, lion"])


class Search(unittest.TestCase):
    def test_it_knows_nouns_and_properties_and_nothing_else(self):
        from search import search

        self.assertTrue(search("violin", "animals").startswith("violin: a musical instrument; "))
        self.assertEqual(search("Does it have a brim?", "clothes"), "brim: hat")
        self.assertEqual(search("Does it have a brim?", "animals"), "nothing found")
        self.assertEqual(search("the secret", "animals"), "nothing found")


if __name__ == "__main__":
    unittest.main()
