"""The games: one model plays both sides and each side is rewarded for its own calls, or it plays a fixed opponent.

A task is a whole number. Those below 100 are self-play: 0 begins on the empty board, 1 to 9 with an X in that cell, the
others with up to three moves at random that follow from the number.
From 100 on the model plays an opponent (`random` if the number is even, `perfect` if it is odd), as X in two of four
and as O in the others, and the opponent's lots follow from the number.
"""

import random

import board as rules

OPPONENT_FROM = 100
WORTH = {"won": 1.0, "drawn": 0.5, "lost": 0.0}
# What a call earns beside the call that its side made after it: the later ones have more to do with how a game ended.
FADE = 0.7


def outcome(board, side):
    won = rules.winner(board)
    return "drawn" if won is None else "won" if won == side else "lost"


def opening(task):
    """The board that a game of self-play begins on, and whose turn it is."""
    board, side, chance = rules.EMPTY, "X", random.Random(f"opening {task}")
    if 0 < task < 10:
        return rules.placed(board, str(task), "X"), "O"
    for _ in range(task % 4 if task else 0):
        board, side = rules.placed(board, chance.choice(rules.free(board)), side), rules.OTHER[side]
    return board, side


def earnings(calls, won, illegal):
    """What each call has earned, `[(id, value)]`, of `calls`, `[(id, side)]` in the order of the game.

    The last call of the winner earns 1 and that of the loser -1, and those before them by `FADE` less each; in a draw
    all earn 0. Who names no free cell loses 1 by that call, and nobody else earns anything: no board led there."""
    if illegal:
        return [(call, 0.0) for call, _ in calls[:-1]] + [(calls[-1][0], -1.0)]
    if won is None:
        return [(call, 0.0) for call, _ in calls]
    left, earned = {"X": 1.0, "O": -1.0} if won == "X" else {"X": -1.0, "O": 1.0}, []
    for call, side in reversed(calls):
        earned.append((call, left[side]))
        left[side] *= FADE
    return earned[::-1]


def self_play(task, ask):
    """A game of the model against itself. `ask(text)` gives its reply and the call's id. Returns what each call has
    earned and numbers for curves. Who names no free cell has lost."""
    (board, side), calls, illegal = opening(task), [], False
    while not rules.over(board):
        reply, call = ask(rules.shown(board, side))
        calls.append((call, side))
        cell = rules.read(reply, board)
        if cell is None:
            illegal = True
            break
        board, side = rules.placed(board, cell, side), rules.OTHER[side]
    won = rules.OTHER[side] if illegal else rules.winner(board)
    numbers = {"x_won": float(won == "X"), "o_won": float(won == "O"), "drawn": float(won is None)}
    return earnings(calls, won, illegal), {**numbers, "illegal": float(illegal), "moves": len(calls)}


def against(task, ask):
    """A game against a fixed opponent. Returns the reward, and numbers for curves by opponent."""
    name = "perfect" if task % 2 else "random"
    side = "XO"[task // 2 % 2]
    chance = random.Random(f"opponent {task}")
    board, turn, illegal = rules.EMPTY, "X", False
    while not rules.over(board):
        if turn == side:
            cell = rules.read(ask(rules.shown(board, turn))[0], board)
            if cell is None:
                illegal = True
                break
        else:
            cell = rules.OPPONENTS[name](board, turn, chance)
        board, turn = rules.placed(board, cell, turn), rules.OTHER[turn]
    ended = "lost" if illegal else outcome(board, side)
    return {
        "reward": WORTH[ended],
        f"{name}/won": float(ended == "won"),
        f"{name}/won_or_drawn": float(ended != "lost"),
        f"{name}/as_{side.lower()}": float(ended != "lost"),
        "illegal": float(illegal),
    }
