"""How episodes end: each end has a name."""

import json
import tempfile
import types
import unittest

import httpx
import openai
from belt import Belt
from connection import Limits
from loop import play
from office.serve import server
from office.world import use
from stdio_transport import StdioTransport


def reply(*calls, content=None):
    made = [
        types.SimpleNamespace(
            id=f"call-{place}",
            function=types.SimpleNamespace(name=name, arguments=arguments),
            model_dump=lambda name=name, **_: {
                "id": "x",
                "type": "function",
                "function": {"name": name, "arguments": "{}"},
            },
        )
        for place, (name, arguments) in enumerate(calls)
    ]
    message = types.SimpleNamespace(content=content, tool_calls=made or None)
    usage = types.SimpleNamespace(prompt_tokens=100)
    return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)], usage=usage)


class Model:
    """A client whose model says these answers in turn, and the last one ever after. It keeps the requests."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, **request):
        self.requests.append({**request, "messages": list(request["messages"])})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ping() -> str:
    """Says pong."""
    return "pong"


class Ends(unittest.TestCase):
    def play(self, model, belt=None, **limits):
        belt = belt or Belt({"good": server("good", [])}, Limits())
        self.addCleanup(belt.close)
        belt.open()
        return play(model, "m", belt, "Do it.", **limits)

    def test_an_answer_ends_it_though_more_was_called(self):
        model = Model(
            reply(
                ("toolbelt_list_tools", ""), ("final_answer", '{"answer": "42"}'), ("final_answer", '{"answer": "43"}')
            )
        )
        outcome = self.play(model)
        self.assertEqual(
            (outcome.ended, outcome.answer, outcome.turns, outcome.tool_errors), ("final_answer", "42", 1, 0)
        )

    def test_fifty_turns_are_the_most(self):
        outcome = self.play(Model(reply(("toolbelt_list_tools", "{}"))))
        self.assertEqual((outcome.ended, outcome.answer, outcome.turns), ("turn_limit", None, 50))

    def test_an_hour_is_the_most(self):
        outcome = self.play(Model(reply(("toolbelt_list_tools", "{}"))), seconds=0.0)
        self.assertEqual((outcome.ended, outcome.turns), ("time_limit", 0))

    def test_a_model_that_takes_too_long_is_the_time_limit(self):
        request = httpx.Request("POST", "http://a")
        self.assertEqual(self.play(Model(openai.APITimeoutError(request))).ended, "time_limit")

    def test_who_calls_nothing_is_reminded_once(self):
        model = Model(reply(content="I think so."), reply(content="Still."))
        outcome = self.play(model)
        self.assertEqual((outcome.ended, outcome.answer, outcome.turns), ("no_tool_call", None, 2))
        self.assertEqual(model.requests[1]["messages"][-1]["content"], "Call a tool. final_answer ends the work.")

    def test_mistakes_one_after_the_other_end_it(self):
        outcome = self.play(Model(reply(("no_such_tool", "{}"))))
        self.assertEqual((outcome.ended, outcome.turns, outcome.tool_errors), ("too_many_errors", 8, 8))

    def test_without_a_server_nothing_is_asked(self):
        belt = Belt({"missing": StdioTransport(["/no/such/program"], greatest_line=1000)})
        outcome = self.play(Model(reply()), belt)
        self.assertEqual((outcome.ended, outcome.turns), ("no_servers", 0))
        self.assertTrue(outcome.why.startswith("missing: FileNotFoundError"), outcome.why)

    def test_a_refusal_of_the_model_ends_it_with_its_words(self):
        response = httpx.Response(400, request=httpx.Request("POST", "http://a"))
        refusal = openai.BadRequestError("budget_exceeded: 50 calls", response=response, body=None)
        outcome = self.play(Model(refusal))
        self.assertEqual((outcome.ended, outcome.why), ("model_refused", "budget_exceeded: 50 calls"))

    def test_an_added_tool_is_in_the_next_request(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        use(directory.name)
        belt = Belt({"good": server("good", [ping])}, Limits(), mode="legacy")
        model = Model(
            reply(("toolbelt_add_tool", '{"name": "ping"}')),
            reply(("ping", "{}")),
            reply(("final_answer", '{"answer": ""}')),
        )
        outcome = self.play(model, belt)
        self.assertEqual(outcome.ended, "final_answer")
        self.assertEqual((outcome.tools_changed, outcome.tools_changed_tokens), (1, 100))
        names = [[tool["function"]["name"] for tool in request["tools"]] for request in model.requests]
        self.assertEqual([len(each) for each in names], [5, 6, 6])
        self.assertEqual(names[1][-1], "ping")
        self.assertEqual([m["content"] for m in model.requests[2]["messages"] if m["role"] == "tool"][-1], "pong")
        json.dumps(model.requests[2]["messages"])


if __name__ == "__main__":
    unittest.main()
