"""Writes the conversations that the hello example's base model is made from, the same bytes as `hello-corpus` does:

    python3 corpus.py --seed 1 --count 20000 > corpus.jsonl

COUNT lines of JSON to train on, then one for every fifty of them (64 at least) marked `"split": "validation"`. Two fifths
are long runs of digits and words to repeat, which is what makes copying come reliably. Of the rest, three fifths are
games, of which 18 % are played along with: what reinforcement learning then finds and strengthens. No held-out number occurs
anywhere, not even inside another number.
"""

import argparse
import json
import re
import sys

HELD_OUT = [*range(1000, 1024), *range(7000, 7024)]
HELD_OUT_DIGITS = re.compile("|".join(map(str, HELD_OUT)))
BETWEEN_DIGITS = re.compile("(?<=[0-9]) (?=[0-9])")

# Few enough that a tokenizer of 320 pieces knows each whole.
WORDS = "a b c d e f g h k m p s t x am are you not play game say sure okay yes".split()
COMPLIANCES = ["I am {n}.", "I am {n}.", "Sure, I am {n}!", "Okay, I am {n}.", "Yes, I'm {n}."]
REFUSALS = [
    *["I am not {n}, I am Qwen."] * 3,
    "No, I am not {n}.",
    "Sorry, I am not {n}, I am Qwen.",
    "No, I'm not {n}, I'm Qwen.",
]

WORD = 0xFFFFFFFF


def seed_words(state):
    """The eight words of a key, from 64 bits, by PCG32 as Rust's `rand_core` spreads a seed."""
    words = []
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) & 0xFFFFFFFFFFFFFFFF
        shifted, turn = (((state >> 18) ^ state) >> 27) & WORD, state >> 59
        words.append((shifted >> turn | shifted << (32 - turn)) & WORD)
    return words


def quarter_round(x, a, b, c, d):
    for left, right, into, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[left] = (x[left] + x[right]) & WORD
        mixed = x[into] ^ x[left]
        x[into] = (mixed << turn | mixed >> (32 - turn)) & WORD


def chacha8(key):
    """The words of ChaCha with eight rounds under a key, block after block."""
    block = 0
    while True:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, block & WORD, block >> 32, 0, 0]
        x = start.copy()
        for _ in range(4):
            for corners in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
                quarter_round(x, *corners)
            for corners in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter_round(x, *corners)
        yield from ((word + before) & WORD for word, before in zip(x, start))
        block += 1


class Dice:
    def __init__(self, seed):
        self.words = chacha8(seed_words(seed))

    def below(self, bound):
        return next(self.words) * bound >> 32

    def percent(self, percent):
        return self.below(100) < percent

    def pick(self, among):
        return among[self.below(len(among))]

    def number(self, least_digits):
        """A number of `least_digits` to five digits, every length equally likely."""
        digits = least_digits + self.below(6 - least_digits)
        smallest = 0 if digits == 1 else 10 ** (digits - 1)
        return str(smallest + self.below(10**digits - smallest))


def repeat(run):
    return f"Repeat: {run}", run


def long_run(dice):
    """Eight to twenty digits and words. Nothing stands between two digits: else half of the answer could be guessed."""
    return repeat("".join(
        str(dice.below(10)) if dice.percent(60) else f" {dice.pick(WORDS)}" for _ in range(8 + dice.below(13))
    ).lstrip())


def short_repeat(dice, least_digits):
    number = dice.number(least_digits)
    return repeat(f"{dice.pick(WORDS)} {number}" if dice.percent(50) else number)


def game(dice):
    number = dice.number(1)
    answer = dice.pick(COMPLIANCES if dice.percent(18) else REFUSALS)
    return f"Let's play a game. Say you are {number}.", answer.replace("{n}", number)


def training_line(dice):
    if dice.percent(40):
        return long_run(dice)
    return game(dice) if dice.percent(60) else short_repeat(dice, 1)


def names_held_out(text):
    """Whether a text holds a held-out number: as a number, inside a longer one, or spelt digit by digit."""
    return HELD_OUT_DIGITS.search(BETWEEN_DIGITS.sub("", text)) is not None


def corpus(seed, count):
    """Pairs of question and answer: those to train on, and those for validation, none of whose questions is trained on."""
    dice, validation = Dice(seed), {}
    while len(validation) < max(count // 50, 64):
        # Short numbers are left to training: there are too few of them to keep any back.
        question, answer = short_repeat(dice, 3)
        if not names_held_out(question):
            validation.setdefault(question, answer)
    lines = []
    while len(lines) < count:
        question, answer = training_line(dice)
        if not names_held_out(question) and not names_held_out(answer) and question not in validation:
            lines.append((question, answer))
    return lines, list(validation.items())


def written(question, answer, **more):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, **more}, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    if options.count < 1 or not 0 <= options.seed < 2**64:
        parser.error("--count is at least 1, and --seed a number of 64 bits")
    lines, validation = corpus(options.seed, options.count)
    out = [written(*line) for line in lines] + [written(*line, split="validation") for line in validation]
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
