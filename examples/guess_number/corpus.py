"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 40000

One row in three is a game of somebody who seldom heeds a hint: a guess is any of the 32 numbers, alike often, but for
one in four, which is one that the hints still allow. The others are exercises in other words, in which every number is
one that the hints allow, alike often, and most hints point to where fewer numbers are left: so they soon come to few,
where heeding is hardest. No row says where to begin, nor that a game is won sooner from the middle. The same arguments
print the same bytes.
"""

import argparse
import json
import random

import game

HEEDS = 0.25
EXERCISE = "Name numbers from 0 to 31 that fit what I say."
# How often a hint of an exercise points to the side where fewer numbers are left.
TO_FEWER = 0.8


def played(chance):
    """A game of somebody who seldom heeds a hint."""
    number, least, most = chance.randint(0, game.MOST), 0, game.MOST
    messages = [{"role": "user", "content": game.WORDINGS[chance.randrange(game.IN_CORPUS)]}]
    for _ in range(game.TRIES):
        heeds = chance.random() < HEEDS
        guess = chance.randint(least, most) if heeds else chance.randint(0, game.MOST)
        # Two digits always: the model's tokens are single digits, and so the second is always in the same place.
        messages.append({"role": "assistant", "content": f"{guess:02}"})
        if guess == number:
            return messages
        least, most = (max(least, guess + 1), most) if number > guess else (least, min(most, guess - 1))
        messages.append({"role": "user", "content": game.hint(number, guess)})
    return messages[:-1]


def exercise(chance):
    """Numbers that fit the hints, until one is left or there have been as many as a game has."""
    least, most = 0, game.MOST
    messages = [{"role": "user", "content": EXERCISE}]
    for _ in range(game.TRIES):
        named = chance.randint(least, most)
        messages.append({"role": "assistant", "content": f"{named:02}"})
        if least == most:
            return messages
        below, above = (least, named - 1), (named + 1, most)
        fewer, more = sorted([below, above], key=lambda side: side[1] - side[0])
        left = fewer if fewer[0] <= fewer[1] and chance.random() < TO_FEWER else more
        messages.append({"role": "user", "content": "higher" if left == above else "lower"})
        least, most = left
    return messages[:-1]


def rows(seed, count):
    chance = random.Random(f"guess {seed}")
    for row in range(count):
        messages = exercise(chance) if row % 3 else played(chance)
        yield {"messages": messages, "split": "validation" if row % 201 < 2 else "train"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
