"""Writes the games that the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 100000

One row in four is a game of a middling player: every guess is a word of the list, and two in five are words that what
was heard still allows. The others are exercises in other words, in which every guess is such a word. The secrets are
those of training: none of the held-out words is ever what is looked for. The same arguments print the same bytes.
"""

import argparse
import json
import random

import game

FITS = {"game": 0.4, "exercise": 1.0}
OPENINGS = {"game": game.OPENING, "exercise": "Say words that fit what I say."}


def conversation(chance, kind):
    word, heard = chance.choice(game.TRAIN), []
    messages = [{"role": "user", "content": OPENINGS[kind]}]
    for _ in range(game.TRIES):
        pool = game.WORDS
        if heard and chance.random() < FITS[kind]:
            pool = sorted(game.fitting(heard))
        guess = chance.choice(pool)
        messages.append({"role": "assistant", "content": game.spell(guess)})
        if guess == word:
            return messages
        heard.append((guess, game.marks(word, guess)))
        messages.append({"role": "user", "content": game.answer(word, guess)})
    return messages[:-1]


def rows(seed, count):
    chance = random.Random(f"wordle {seed}")
    for row in range(count):
        messages = conversation(chance, "exercise" if row % 4 else "game")
        yield {"messages": messages, "split": "validation" if row % 200 < 2 else "train"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
