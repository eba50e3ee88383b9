"""The game: a number is guessed in six tries, and each wrong guess is answered with "higher" or "lower".

Each guess earns by how much it narrows down what the number can be, and all guesses of a game that is won 1 together.
A task is a whole number: `task % 32` is the number to guess, `task // 32` says in which words the game is asked for.
"""

import math
import re

MOST, TRIES = 31, 6
FEW = 4
# The words of a game. The first is what a real model is trained on. The corpus of the tiny one has all but the last two,
# and its training the first twelve.
WORDINGS = [
    "I am thinking of a whole number from 0 to 31. Guess it in at most 6 tries. Reply with one number only. "
    'After each guess I say "higher" or "lower".',
    "Guess my number from 0 to 31 in 6 tries. I say higher or lower.",
    "My number is from 0 to 31. Which is it? You have 6 tries, and I say higher or lower.",
    "Let us play: find my whole number from 0 to 31 with 6 guesses.",
    "What is my number? It is at least 0 and at most 31. Six tries.",
    "A number from 0 to 31, 6 tries. Go on.",
    "You have 6 tries to guess the number that I wrote down. It is from 0 to 31.",
    "I picked one of the numbers 0 to 31. Find out which. I say whether it is higher or lower.",
    "Six guesses for a number between 0 and 31, please.",
    "Play with me: 6 guesses, numbers from 0 to 31, and hints after each.",
    "Try to guess which number I hold. It is from 0 to 31, and you may ask 6 times.",
    "Find the number. It is from 0 to 31. I answer with higher or lower.",
    "I have a number from 0 to 31. You have 6 guesses.",
    "Which number from 0 to 31 do I have? 6 tries, and I say higher or lower.",
    "There is a number in my head, not below 0 and not above 31. Find it, and be quick: you get 6 tries.",
    "Can you tell my secret number? It is one of 0, 1, 2 and so on up to 31, and your guesses are 6.",
]
IN_CORPUS = 14


def read(reply):
    """The guess in a reply: its only number, if that is one of the range; else None."""
    numbers = re.findall(r"[0-9]+", reply or "")
    if len(numbers) != 1 or "-" + numbers[0] in reply or len(numbers[0]) > 2 or int(numbers[0]) > MOST:
        return None
    return int(numbers[0])


def hint(number, guess):
    return "higher" if number > guess else "lower"


def earned(before, after):
    """What a guess earns that leaves `after` of the `before` numbers possible: none of them, if it is the number.

    Over a game this adds up to 1 if it is won, to less the more numbers are left if it is lost, and to nothing for
    guesses against the hints.
    """
    return math.log((before + 1) / (after + 1)) / math.log(MOST + 2)


def play(task, ask):
    """Plays a game; `ask(messages)` gives the model's reply. Returns what each guess earned, and numbers of the game."""
    number, wording = task % (MOST + 1), task // (MOST + 1)
    messages = [{"role": "user", "content": WORDINGS[wording]}]
    guesses, rewards, won, least, most, heeded = [], [], False, 0, MOST, {"few": [], "many": []}
    for _ in range(TRIES):
        reply = ask(messages)
        guess = read(reply)
        if guess is None:
            break
        guesses.append(guess)
        before = most - least + 1
        heeded["few" if before <= FEW else "many"].append(least <= guess <= most)
        if guess == number:
            won = True
            rewards.append(earned(before, 0))
            break
        least, most = (max(least, guess + 1), most) if number > guess else (least, min(most, guess - 1))
        rewards.append(earned(before, most - least + 1))
        # The reply goes back as it came, so that the conversation goes on token by token.
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": hint(number, guess)}]
    turns = min(len(guesses) + (not won), TRIES)
    numbers = {"won": float(won), "turns": turns}
    if guesses:
        numbers["first_guess"] = guesses[0]
        numbers["first_guess_from_middle"] = abs(guesses[0] - MOST / 2)
        numbers["heeded"] = sum(map(sum, heeded.values())) / len(guesses)
        # Of guesses at which few numbers were left: the games that come to it are in the mean.
        numbers |= {f"heeded_of_{name}": sum(each) / len(each) for name, each in heeded.items() if each}
    return rewards, numbers
