"""Twenty questions as a CrewAI Flow. It plays one game, and prints what that earned in a line of JSON.

    python3 agent.py dog

The player is the model at OPENAI_BASE_URL, as for any program that uses CrewAI. That it learns, the Flow does not know.
"""

import argparse
import json
import os
import sys

# CrewAI reads these when it is imported; it would call its makers' servers otherwise.
for name, value in (
    ("CREWAI_DISABLE_TELEMETRY", "true"),
    ("CREWAI_DISABLE_TRACKING", "true"),
    ("CREWAI_DISABLE_VERSION_CHECK", "true"),
    ("CREWAI_TRACING_ENABLED", "false"),
    ("OTEL_SDK_DISABLED", "true"),
):
    os.environ[name] = value

import game
from answerer import Answer, Facts, Model
from crewai import LLM, Agent
from crewai.flow.flow import Flow, listen, router, start
from crewai.tools import tool
from nouns import nouns
from pydantic import BaseModel
from search import search


class Conversation(BaseModel):
    """What the player has seen."""

    messages: list[dict] = []
    question: str = ""
    answer: Answer | None = None


class TwentyQuestions(Flow[Conversation]):
    """ask -> answer -> once more, or finish."""

    def __init__(self, noun, player, answerer, searches=False, turns=game.TURNS):
        super().__init__(suppress_flow_events=True)
        self._played = game.Game(noun, turns)
        self._player = player
        self._answerer = answerer
        self._agent = self._with_search() if searches else None
        self.state.messages = game.opening(noun.category)

    @start("next_turn")
    def ask(self):
        if self._agent is None:
            self.state.question = self._player.call(self.state.messages) or ""
        else:
            self.state.question = self._agent.kickoff(self.state.messages).raw or ""

    @listen(ask)
    def answer(self):
        question = self.state.question
        self.state.answer = answer = self._answerer.answer(self._played.noun, question)
        self._played.ask(question, answer.yes_or_no, answer.correct)
        # The question goes back as it came: so the conversation goes on token by token.
        self.state.messages += [
            {"role": "assistant", "content": question},
            {"role": "user", "content": answer.yes_or_no},
        ]

    @router(answer)
    def is_it_over(self):
        return "game_over" if self._played.over else "next_turn"

    @listen("game_over")
    def finish(self):
        return self._played.reward()

    def _with_search(self):
        """The player as an agent that may look something up before it asks, which costs a turn."""

        @tool("search")
        def look_up(query: str) -> str:
            """Looks up a noun, or which nouns have a property (ask it as a yes/no question). Costs a turn."""
            self._played.search()
            return "no turns are left" if self._played.over else search(query, self._played.noun.category)

        return Agent(
            role="player of twenty questions",
            goal="guess the noun",
            backstory="You ask one short yes/no question at a time.",
            llm=self._player,
            tools=[look_up],
            max_iter=3,
        )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--player", default="player", help="what the player's model is called")
    parser.add_argument("--question-tokens", type=int, default=16, help="of a question at most, without --search")
    parser.add_argument("--answerer", help="a model that answers in place of facts and grammar")
    parser.add_argument("--search", action="store_true", help="whether the player has a search tool")
    return parser


def play(noun, options, base_url=None, api_key=None, turns=game.TURNS):
    """One game, at the model that the environment names unless told otherwise."""
    where = {"base_url": base_url, "api_key": api_key} if base_url else {}
    tokens = {} if options.search else {"max_completion_tokens": options.question_tokens}
    player = LLM(model=options.player, provider="openai", **tokens, **where)
    answerer = Model(LLM(model=options.answerer, provider="openai", **where)) if options.answerer else Facts()
    return TwentyQuestions(nouns()[noun], player, answerer, options.search, turns).kickoff()


def main():
    parser = arguments()
    parser.add_argument("noun")
    options = parser.parse_args()
    print(json.dumps(play(options.noun, options)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
