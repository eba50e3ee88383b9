"""The game: a number is guessed in six tries, and each wrong guess is answered with "higher" or "lower".

A task is a whole number: `task % 32` is the number to guess, `task // 32` says in which words the game is asked for.
"""

import re

MOST, TRIES = 31, 6
# The words of a game. The first is what a real model is trained on; the corpus of the tiny one has the first six.
WORDINGS = [
    "I am thinking of a whole number from 0 to 31. Guess it in at most 6 tries. Reply with one number only. "
    'After each guess I say "higher" or "lower".',
    "Guess my number from 0 to 31 in 6 tries. I say higher or lower.",
    "My number is from 0 to 31. Which is it? You have 6 tries, and I say higher or lower.",
    "Let us play: find my whole number from 0 to 31 with 6 guesses.",
    "I have a number from 0 to 31. You have 6 guesses.",
    "Which number from 0 to 31 do I have? 6 tries, and I say higher or lower.",
    "There is a number in my head, not below 0 and not above 31. Find it, and be quick: you get 6 tries.",
    "Can you tell my secret number? It is one of 0, 1, 2 and so on up to 31, and your guesses are 6.",
]
IN_CORPUS = 6
# What a game that is lost earns for each turn after the first: as much as makes playing by the rules worth learning.
FOR_A_TURN = 0.05


def read(reply):
    """The guess in a reply: its only number, if that is one of the range; else None."""
    numbers = re.findall(r"[0-9]+", reply or "")
    if len(numbers) != 1 or "-" + numbers[0] in reply or len(numbers[0]) > 2 or int(numbers[0]) > MOST:
        return None
    return int(numbers[0])


def hint(number, guess):
    return "higher" if number > guess else "lower"


def play(task, ask):
    """Plays a game; `ask(messages)` gives the model's reply. Returns the reward and what else is worth a curve."""
    number, wording = task % (MOST + 1), task // (MOST + 1)
    messages = [{"role": "user", "content": WORDINGS[wording]}]
    guesses, won, least, most, heeded = [], False, 0, MOST, 0
    for _ in range(TRIES):
        reply = ask(messages)
        guess = read(reply)
        if guess is None:
            break
        guesses.append(guess)
        heeded += least <= guess <= most
        if guess == number:
            won = True
            break
        least, most = (max(least, guess + 1), most) if number > guess else (least, min(most, guess - 1))
        # The reply goes back as it came, so that the conversation goes on token by token.
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": hint(number, guess)}]
    turns = min(len(guesses) + (not won), TRIES)
    result = {"reward": 1.0 if won else FOR_A_TURN * (turns - 1), "won": float(won), "turns": turns}
    if guesses:
        result["first_guess"] = guesses[0]
        result["first_guess_from_middle"] = abs(guesses[0] - MOST / 2)
        result["heeded"] = heeded / len(guesses)
    return result
