"""The agent asks what the task says, and is paid only for a reply that the model ended."""

import types
import unittest
from unittest import mock

import agent
import sums


def answered(content, finish_reason):
    """A client in the place of OpenAI's, and what it was asked."""
    requests = []

    def create(**request):
        requests.append(request)
        message = types.SimpleNamespace(content=content)
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message, finish_reason=finish_reason)])

    completions = types.SimpleNamespace(create=create)
    return types.SimpleNamespace(chat=types.SimpleNamespace(completions=completions)), requests


class Agent(unittest.TestCase):
    def reward(self, content, finish_reason):
        client, self.requests = answered(content, finish_reason)
        task = types.SimpleNamespace(input=3, base_url="http://here/v1", api_key="key")
        with mock.patch.object(agent, "SHARED", types.SimpleNamespace(with_options=lambda **_: client)):
            return agent.run(task)["reward"]

    def test_it_asks_for_the_sum_and_says_nothing_of_it(self):
        a, b = sums.PAIRS[3]
        self.assertEqual(self.reward(str(a + b), "stop"), 1.0)
        self.assertEqual(self.requests[0]["messages"], [{"role": "user", "content": f"What is {a} + {b}?"}])

    def test_a_reply_that_was_cut_off_or_is_no_text_earns_nothing(self):
        self.assertEqual(self.reward(str(sum(sums.PAIRS[3])), "length"), 0.0)
        self.assertEqual(self.reward(None, "stop"), 0.0)


if __name__ == "__main__":
    unittest.main()
