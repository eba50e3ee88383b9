"""The games: one model plays both sides and each side is rewarded for its own calls, or it plays a fixed opponent.

A task is a whole number. Those below 100 are self-play: 0 begins on the empty board, 1 to 9 with an X in that cell.
From 100 on the model plays an opponent (`random` if the number is even, `perfect` if it is odd), as X in two of four
and as O in the others, and the opponent's lots follow from the number.
"""

import random

import board as rules

OPPONENT_FROM = 100
WORTH = {"won": 1.0, "drawn": 0.5, "lost": 0.0}


def outcome(board, side):
    won = rules.winner(board)
    return "drawn" if won is None else "won" if won == side else "lost"


def self_play(task, ask):
    """A game of the model against itself. `ask(text)` gives its reply and the call's id. Returns what each call has
    earned, `[(id, value)]`, and numbers for curves: 1 for the calls of the winner, -1 for the loser's, 0 for all of a
    draw. Who names no free cell has lost."""
    board, side, calls, illegal = rules.EMPTY, "X", [], False
    if task:
        board, side = rules.placed(board, str(task), "X"), "O"
    while not rules.over(board):
        reply, call = ask(rules.shown(board, side))
        calls.append((call, side))
        cell = rules.read(reply, board)
        if cell is None:
            illegal = True
            break
        board, side = rules.placed(board, cell, side), rules.OTHER[side]
    won = rules.OTHER[side] if illegal else rules.winner(board)
    earned = [(call, 0.0 if won is None else 1.0 if won == mover else -1.0) for call, mover in calls]
    numbers = {"x_won": float(won == "X"), "o_won": float(won == "O"), "drawn": float(won is None)}
    return earned, {**numbers, "illegal": float(illegal), "moves": len(calls)}


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
