"""Writes games of a player who is no good, for the warm-up: JSON lines of conversations.

    python3 corpus.py --seed 1 --count 320 > games.jsonl

It asks whatever comes to its mind, whether that was answered before or not, seldom guesses, and then anything of the
category. No held-out noun is thought of or named.
"""

import argparse
import json
import random

from game import Game, opening
from grammar import Guess, parse
from nouns import CATEGORIES, HERE, holds, others, predicates, split

BABBLE = ("Let me think.", "I like it.", "What is it?", "Is it big or small?", "How big is it?", "Tell me more.")
TURNS = 8


def paraphrases():
    """All questions of paraphrases.txt, by predicate."""
    lines = (HERE / "paraphrases.txt").read_text(encoding="utf-8").splitlines()
    return {predicate: questions.split(" | ") for predicate, questions in (line.split(": ", 1) for line in lines)}


def article(noun, category):
    """How a noun stands in a guess."""
    if category in ("countries", "sports") or noun.endswith("s"):
        return noun
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def question(random, category, wordings):
    """One turn of the player."""
    kind = random.random()
    if kind < 0.1:
        return random.choice(BABBLE)
    if kind < 0.35:
        names = [each.name for each in split(category)[0]] + others()[category]
        return f"Is it {article(random.choice(names), category)}?"
    sensible = [each for each, categories in predicates().items() if category in categories and len(categories) < 10]
    return random.choice(wordings[random.choice(sensible if random.random() < 0.8 else list(predicates()))])


def game(random, wordings):
    """The messages of a game, up to its end or some turns."""
    category = random.choice(list(CATEGORIES))
    played = Game(random.choice(split(category)[0]))
    messages = opening(category)
    while not played.over and played.turns < TURNS:
        text = question(random, category, wordings)
        parsed = parse(text)
        held = None
        if isinstance(parsed, Guess):
            held = parsed.noun == played.noun.name
        elif parsed is not None:
            held = holds(parsed.predicate, played.noun)
        answer = {True: "yes", False: "no", None: "n/a"}[held]
        played.ask(text, answer)
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
    return messages[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=320)
    options = parser.parse_args()
    chance, wordings = random.Random(options.seed), paraphrases()
    for _ in range(options.count):
        # The opening has a question that nobody sampled: it is read and not learnt.
        messages = game(chance, wordings)
        for number, message in enumerate(messages):
            if message["role"] == "assistant":
                message["trainable"] = number > 2
            else:
                message["trainable"] = False
        print(json.dumps({"messages": messages}))


if __name__ == "__main__":
    main()
