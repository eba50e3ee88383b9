"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 40000

Half of the rows are games of somebody who seldom heeds a hint: a guess is any of the 32 numbers, alike often, but for
one in four, which is one that the hints still allow. The others are exercises in other words, in which every number is
one that the hints allow, alike often. So no row says where to begin, nor that a game is won sooner from the middle. The
same arguments print the same bytes.
"""

import argparse
import json
import random

import game

HEEDS = {"game": 0.25, "exercise": 1.0}
# It begins with the word that the template writes before each reply: the tokenizer learns its pieces from what is said
# alone, and would else spell that word letter by letter, nine tokens a turn.
EXERCISE = "assistant:\nname numbers from 0 to 31 that fit what I say."


def conversation(chance, kind):
    number, least, most = chance.randint(0, game.MOST), 0, game.MOST
    asked = EXERCISE if kind == "exercise" else game.WORDINGS[chance.randrange(game.IN_CORPUS)]
    messages = [{"role": "user", "content": asked}]
    for _ in range(game.TRIES):
        heeds = chance.random() < HEEDS[kind]
        guess = chance.randint(least, most) if heeds else chance.randint(0, game.MOST)
        # Two digits always: the model's tokens are single digits, and so the second is always in the same place.
        messages.append({"role": "assistant", "content": f"{guess:02}"})
        if guess == number:
            return messages
        least, most = (max(least, guess + 1), most) if number > guess else (least, min(most, guess - 1))
        messages.append({"role": "user", "content": game.hint(number, guess)})
    return messages[:-1]


def rows(seed, count):
    chance = random.Random(f"guess {seed}")
    for row in range(count):
        messages = conversation(chance, "exercise" if row % 2 else "game")
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
