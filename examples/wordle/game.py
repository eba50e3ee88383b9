"""The game: a word of three letters is guessed in six tries, and each guess is answered letter by letter.

A task is a whole number: the place of its secret in `secrets`. Guesses may be any word of the list, held out or not.
"""

import functools
import random
import re
from pathlib import Path

WORDS = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split()
TRIES = 6
OPENING = "Find my word of three letters."


def split():
    """The words that are secrets in training, and those that never are before they are asked for."""
    mixed = sorted(WORDS)
    random.Random("wordle").shuffle(mixed)
    return mixed[:-96], mixed[-96:]


TRAIN, HELD_OUT = split()


def secret(task):
    """The secret of a task: first those of training, then the held-out ones."""
    return (TRAIN + HELD_OUT)[task]


def spell(word):
    """How a word is written: letter by letter, since a model of few tokens else sees no letters, and with a space before
    each, so that a letter is the same token wherever it stands."""
    return "".join(" " + letter for letter in word)


def read(reply):
    """The guess in a reply: three letters, together or apart, and nothing else; or None."""
    letters = re.sub(r"\s+", "", reply or "")
    return letters if re.fullmatch(r"[a-z]{3}", letters) else None


def marks(word, guess):
    """For each letter of a guess `=` if it stands there, `~` if it stands elsewhere in the word, else `-`. A letter is
    accounted for as often as the word has it, those in their place first."""
    left = [mine for mine, guessed in zip(word, guess) if mine != guessed]
    signs = []
    for mine, guessed in zip(word, guess):
        if mine == guessed:
            signs.append("=")
        elif guessed in left:
            left.remove(guessed)
            signs.append("~")
        else:
            signs.append("-")
    return "".join(signs)


def answer(word, guess):
    """What a guess is answered with: each of its letters with its mark, or that it is no word."""
    if guess not in WORDS:
        return "no word"
    return "".join(f" {letter}{mark}" for letter, mark in zip(guess, marks(word, guess)))


@functools.cache
def fitting_one(guess, hint):
    """The words that could be the secret after one guess that was marked so."""
    return frozenset(word for word in WORDS if word != guess and marks(word, guess) == hint)


def fitting(heard):
    """The words that could be the secret after these guesses, each with its marks."""
    return functools.reduce(frozenset.intersection, (fitting_one(*each) for each in heard), frozenset(WORDS))


def play(task, ask):
    """Plays a game; `ask(messages)` gives the model's reply. Returns what each guess earned, and numbers of the game.

    A guess earns 1 if it is a word that all that was heard allows, and else nothing. To be the one that is looked for earns no
    more: that would teach which words are looked for in training, and the held-out ones never are."""
    word = secret(task)
    messages, heard, rewards, known, won = [{"role": "user", "content": OPENING}], [], [], 0, False
    for _ in range(TRIES):
        reply = ask(messages)
        guess = read(reply)
        if guess is None:
            break
        rewards.append(float(guess in fitting(heard)))
        known += guess in WORDS
        won = guess == word
        if won:
            break
        if guess in WORDS:
            heard.append((guess, marks(word, guess)))
        # The reply goes back as it came, so that the conversation goes on token by token.
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": answer(word, guess)}]
    numbers = {"won": float(won), "tries": len(rewards)}
    if rewards:
        numbers |= {"words": known / len(rewards), "fitting": sum(rewards) / len(rewards)}
    return rewards, numbers
