"""Tic-tac-toe: the board, what ends a game, and the players that the model is measured against.

A board is nine characters, cell by cell: `X`, `O`, or the cell's own digit from 1 to 9 while it is free.
"""

import functools

EMPTY = "123456789"
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
OTHER = {"X": "O", "O": "X"}


def free(board):
    """The cells that may be played, as digits."""
    return [cell for cell in board if cell.isdigit()]


def placed(board, cell, side):
    return board.replace(cell, side)


def winner(board):
    """`X` or `O` once one of them has a line, else None."""
    return next((board[a] for a, b, c in LINES if board[a] == board[b] == board[c]), None)


def over(board):
    return winner(board) is not None or not free(board)


def shown(board, side):
    """What the player whose turn it is reads."""
    rows = "\n".join(" ".join(board[row : row + 3]) for row in (0, 3, 6))
    return f"You are {side}. Name a free cell.\n{rows}"


def read(reply, board):
    """The cell that a reply names, if it is a free one and there is nothing else in the reply; else None."""
    cell = (reply or "").strip()
    return cell if len(cell) == 1 and cell in free(board) else None


@functools.cache
def value(board, side):
    """What a board is worth to the side whose turn it is, if both play perfectly: 1, 0 or -1."""
    if over(board):
        return -1 if winner(board) else 0
    return max(-value(placed(board, cell, side), OTHER[side]) for cell in free(board))


def random_move(board, side, chance):
    return chance.choice(free(board))


def perfect_move(board, side, chance):
    """A move that is worth most, any of those alike often."""
    worth = {cell: -value(placed(board, cell, side), OTHER[side]) for cell in free(board)}
    return chance.choice([cell for cell in worth if worth[cell] == max(worth.values())])


OPPONENTS = {"random": random_move, "perfect": perfect_move}
