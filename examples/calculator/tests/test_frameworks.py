"""Both agents, against a host that reads its answers from a script. Each needs its framework: see requirements.txt."""

import importlib.util
import json
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))

import declared
import sums
from grade import grade

TASK = sums.Task(0)
RIGHT = ("calculator", {"a": TASK.a, "op": TASK.op, "b": TASK.b})
UNKNOWN = ("calc", RIGHT[1])
MALFORMED = ("calculator", {**RIGHT[1], "op": "plus"})


class Host:
    """Answers Chat Completions and Responses with the next of its script: a text, or a call's name and arguments."""

    def __init__(self, script):
        self.requests = []
        host, left = self, list(script)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open, as the proxy's do

            def log_message(self, *words):
                pass

            def do_POST(self):
                host.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                number = len(host.requests)
                write = response if self.path.endswith("/responses") else completion
                answer = json.dumps(write(number, left.pop(0))).encode()
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


def completion(number, output):
    message = {"role": "assistant", "content": output}
    if not isinstance(output, str):
        function = {"name": output[0], "arguments": json.dumps(output[1])}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "clerk", "choices": [choice]}


def response(number, output):
    if isinstance(output, str):
        text = {"type": "output_text", "text": output, "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    else:
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "status": "completed"}
        item |= {"name": output[0], "arguments": json.dumps(output[1])}
    return {
        "id": f"r{number}",
        "object": "response",
        "created_at": 1,
        "model": "clerk",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


class Episodes:
    """What holds of both; `declaration` is what the corpus has of the framework's tool."""

    def play(self, *script):
        agent = __import__(self.agent)
        self.host = Host(script)
        self.addCleanup(self.host.close)
        requested, made, answer = agent.play(TASK.question, base_url=self.host.url, api_key="none")
        return grade(TASK, requested, made, answer)

    def test_the_call_is_made_and_its_result_answered(self):
        got = self.play(RIGHT, f"It is {TASK.result}.")
        self.assertEqual((got["reward"], got["tool_errors"]), (1.0, 0.0))
        self.assertEqual(self.results(), [str(TASK.result)])

    def test_the_tool_is_declared_as_the_corpus_has_it(self):
        self.play("no")
        (tool,) = self.host.requests[0]["tools"]
        if "function" not in tool:
            order = ["name", "description", "parameters", "strict"]
            self.assertEqual(set(tool), {"type", *order})
            tool = {"type": "function", "function": {key: tool[key] for key in order}}
        self.assertEqual(json.dumps(tool), json.dumps(self.declaration))

    def test_who_calls_nothing_earns_nothing(self):
        got = self.play(f"It is {TASK.result}.")
        self.assertEqual((got["reward"], got["tool_errors/no_call"]), (0.0, 1.0))

    def test_what_is_said_of_errors_is_what_the_corpus_has_and_they_are_counted(self):
        got = self.play(UNKNOWN, MALFORMED, f"It is {TASK.result}.")
        self.assertEqual((got["reward"], got["tool_errors"]), (0.0, 2.0))
        self.assertEqual((got["tool_errors/unknown_tool"], got["tool_errors/malformed_arguments"]), (1.0, 1.0))
        wanted = [declared.unknown_tool(self.declaration, "calc")]
        wanted.append(declared.malformed(self.declaration, TASK.a, "plus", TASK.b))
        self.assertEqual(self.results(), wanted)

    def test_who_only_calls_has_no_answer(self):
        got = self.play(RIGHT, RIGHT, RIGHT)
        self.assertEqual((got["reward"], got["right_call"]), (0.3, 1.0))

    def test_one_process_plays_episodes_one_after_another_and_at_once(self):
        agent = __import__(self.agent)
        self.host = Host(["It is 1."] * 18)
        self.addCleanup(self.host.close)

        def play(_):
            return agent.play(TASK.question, base_url=self.host.url, api_key="none")

        with ThreadPoolExecutor(8) as pool:
            played = [play(0), play(1), *pool.map(play, range(16))]
        self.assertEqual(played, [([], [], "It is 1.")] * 18)

    def results(self):
        """What the last request says of the calls before it."""
        body = self.host.requests[-1]
        messages = body.get("messages") or body["input"]
        texts = [message.get("output") or message.get("content") for message in messages]
        return [text for text, each in zip(texts, messages) if "tool_call_id" in each or "output" in each]


@unittest.skipUnless(importlib.util.find_spec("langchain_openai"), "NOT RUN: needs the package langchain-openai")
class LangGraph(Episodes, unittest.TestCase):
    agent, declaration = "agent_langgraph", declared.LANGGRAPH


@unittest.skipUnless(importlib.util.find_spec("agents"), "NOT RUN: needs the package openai-agents")
class OpenAIAgents(Episodes, unittest.TestCase):
    agent, declaration = "agent_openai_agents", declared.OPENAI_AGENTS


if __name__ == "__main__":
    unittest.main()
