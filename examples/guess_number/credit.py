"""Prints how many games it takes to tell, from rewards, that halving and heeding pay, for several ways of rewarding:

    python3 credit.py

A player heeds the hints with a probability, and guesses any of the numbers that are left then, alike often. Its games
are what a policy learns from: groups of eight for one number, an advantage for each guess, and the policy gradient
along two directions, towards guesses in the middle of what is left and towards guesses that heed the hints. The number
printed is that of games after which the mean gradient is three times its standard error.
"""

import argparse
import random
import statistics

import game

GROUP = 8


def played(chance, number, heeds):
    """A game: for each guess its score along both directions and what it earned; and whether the game is won."""
    least, most, guesses = 0, game.MOST, []
    for _ in range(game.TRIES):
        left = range(least, most + 1)
        outside = [n for n in range(game.MOST + 1) if n not in left]
        inside = not outside or chance.random() < heeds
        guess = chance.choice(left if inside else outside)
        mean = statistics.fmean(-centre(left, n) for n in left)
        towards_middle = -centre(left, guess) - mean if inside else 0.0
        towards_heeding = 0.0 if not outside else 1 - heeds if inside else -heeds
        least, most = (max(least, guess + 1), most) if number > guess else (least, min(most, guess - 1))
        won = guess == number
        gain = game.earned(len(left), 0 if won else most - least + 1) if inside else 0.0
        guesses.append((towards_middle, towards_heeding, gain))
        if won:
            return guesses, True
    return guesses, False


def centre(left, number):
    """How far a number is from the middle of those that are left, in halves of their range."""
    return abs(number - (left[0] + left[-1]) / 2) / (len(left) / 2)


def of_games(earned):
    """An advantage of the whole game for each of its guesses: what it earned, against the mean of the group."""

    def advantages(games):
        rewards = [earned(guesses, won) for guesses, won in games]
        mean = statistics.fmean(rewards)
        return [[reward - mean] * len(guesses) for reward, (guesses, _) in zip(rewards, games)]

    return advantages


def of_guesses(discount):
    """`advantages.per_call` of the trainer, with `compared_with = "turn"`."""

    def advantages(games):
        returns = []
        for guesses, _ in games:
            behind, found = 0.0, []
            for _, _, gain in reversed(guesses):
                behind = gain + discount * behind
                found.insert(0, behind)
            returns.append(found)
        turns = range(game.TRIES)
        means = [statistics.fmean([each[t] for each in returns if t < len(each)] or [0.0]) for t in turns]
        return [[value - means[turn] for turn, value in enumerate(each)] for each in returns]

    return advantages


WAYS = {
    "a game: 1 if it is won, else 0.25": of_games(lambda guesses, won: 1.0 if won else 0.25),
    "a game: 1 less 0.1 for each guess, else 0.25": of_games(
        lambda guesses, won: 1.1 - 0.1 * len(guesses) if won else 0.25
    ),
    "a game: what its guesses told": of_games(lambda guesses, won: sum(gain for _, _, gain in guesses)),
    "a guess: what it and those behind it told": of_guesses(1.0),
    "a guess: what it told, and half of the next": of_guesses(0.5),
    "a guess: what it told": of_guesses(0.0),
}


def games_needed(gradients):
    """After how many games the mean of these is three times its standard error."""
    return 9 * statistics.pvariance(gradients) / statistics.fmean(gradients) ** 2


def measured(heeds, groups, seed=1):
    """For each way of rewarding, the games needed to tell that halving pays, and that heeding does."""
    chance = random.Random(f"credit {seed}")
    gradients = {way: ([], []) for way in WAYS}
    for _ in range(groups):
        number = chance.randint(0, game.MOST)
        games = [played(chance, number, heeds) for _ in range(GROUP)]
        for way, advantages in WAYS.items():
            for (guesses, _), values in zip(games, advantages(games)):
                for direction, found in enumerate(gradients[way]):
                    found.append(sum(guess[direction] * value for guess, value in zip(guesses, values)))
    return {way: tuple(map(games_needed, found)) for way, found in gradients.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=2000, help="groups of eight games")
    options = parser.parse_args()
    for heeds in (0.6, 0.9):
        print(f"{f'heeds hints with probability {heeds}':<48}{'halving':>8}{'heeding':>9}")
        for way, (halving, heeding) in measured(heeds, options.groups).items():
            print(f"  {way:<46}{halving:8.0f}{heeding:9.0f}")


if __name__ == "__main__":
    main()
