"""Writes what the tiny model is made from, one conversation a line:

    python3 corpus.py --seed 1 --count 20000

A board of a game in which both sides move at random, and a move that is one of the free cells, alike often: the rules,
and nothing of how to play. The same arguments print the same bytes.
"""

import argparse
import json
import random

import board as rules


def conversation(chance):
    board, side = rules.EMPTY, "X"
    for _ in range(chance.randrange(9)):
        after = rules.placed(board, chance.choice(rules.free(board)), side)
        if rules.over(after):
            break
        board, side = after, rules.OTHER[side]
    cell = chance.choice(rules.free(board))
    return [{"role": "user", "content": rules.shown(board, side)}, {"role": "assistant", "content": cell}]


def rows(seed, count):
    chance = random.Random(f"two players {seed}")
    for row in range(count):
        yield {"messages": conversation(chance), "split": "validation" if row % 200 == 0 else "train"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    for row in rows(options.seed, options.count):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
