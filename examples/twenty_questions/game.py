"""The rules of one game, and what it earned. Nothing that the player says is believed: it is read by the grammar."""

from grammar import Guess, parse
from nouns import CATEGORIES, holds, split

TURNS = 20
LOST = 0.3  # what a lost game earns at most


class Game:
    """One noun and its turns."""

    def __init__(self, noun, most_turns=TURNS):
        self.noun = noun
        self.most_turns = most_turns
        self.turns = self.not_understood = self.guesses = self.searches = self.repeated = 0
        self.won = False
        self.contradicted = 0
        # Only of those to train on: whoever learns here is told nothing of what is held out.
        self._others = {each.name: each for each in split(noun.category)[0] if each is not noun}
        self._left = dict(self._others)
        self._parsed = set()

    @property
    def over(self):
        return self.won or self.turns >= self.most_turns

    def ask(self, question, yes_or_no, correct=False):
        """A turn: a question and what the answerer said to it. After the end of the game nothing counts."""
        if self.over:
            return
        self.turns += 1
        parsed = parse(question)
        self.repeated += parsed in self._parsed
        if parsed is not None:
            self._parsed.add(parsed)
        self.not_understood += yes_or_no == "n/a"
        if isinstance(parsed, Guess):
            self.guesses += 1
            self.won = parsed.noun == self.noun.name
            self._left.pop(parsed.noun, None)
        elif parsed is not None and (held := holds(parsed.predicate, self.noun)) is not None:
            self._left = {name: each for name, each in self._left.items() if holds(parsed.predicate, each) == held}
        self.contradicted += correct != self.won

    def search(self):
        """A turn that was spent on looking something up."""
        if not self.over:
            self.turns += 1
            self.searches += 1

    @property
    def ruled_out(self):
        """The share of the category's other nouns that the questions have told apart from this one."""
        return 1 - len(self._left) / len(self._others)

    def reward(self):
        """What the game earned, and of what it consists."""
        won = float(self.won)
        questions = max(1, self.turns - self.searches)
        return {
            "reward": 1.0 if self.won else LOST * self.ruled_out,
            "won": won,
            f"won/{self.noun.category}": won,
            "turns": self.turns,
            "ruled_out": self.ruled_out,
            "not_understood": self.not_understood / questions,
            "guesses": self.guesses / questions,
            "repeated": self.repeated / questions,
            "searches": self.searches,
            "contradicted": self.contradicted,
        }


def opening(category):
    """How a conversation with the player begins: with a question that was asked for it and tells the category."""
    return [
        {"role": "system", "content": "You play twenty questions."},
        {"role": "user", "content": "I think of something. Ask!"},
        {"role": "assistant", "content": f"Is it {CATEGORIES[category]}?"},
        {"role": "user", "content": "yes"},
    ]
