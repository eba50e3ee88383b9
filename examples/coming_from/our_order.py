"""The order in which a run of Fulgurite reads the rows of a file, so that another trainer can read them in the same one."""

import hashlib

MASK = 2**64 - 1


def derived(parent, *parts):
    digest = hashlib.sha256(parent.to_bytes(8, "little"))
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part.encode())
    return int.from_bytes(digest.digest()[:8], "little") & (MASK >> 1)


def mixed(number):
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & MASK
    return number ^ (number >> 31)


def permutation(seed, limit):
    """The numbers below a limit, by a Feistel network over the next power of four."""
    keys = [derived(seed, "round", str(turn)) for turn in range(6)]
    half = max(1, ((limit - 1).bit_length() + 1) // 2)

    def through(number):
        left, right = number >> half, number & (2**half - 1)
        for key in keys:
            left, right = right, left ^ (mixed(right ^ key) & (2**half - 1))
        return (left << half) | right

    for number in range(limit):
        number = through(number)
        while number >= limit:
            number = through(number)
        yield number


def rows_in_order(rows, epochs, seed=1):
    """Rows of one file without a validation share, epoch after epoch, as `[run] seed` orders them."""
    conversations = derived(seed, "conversations")
    return [rows[row] for epoch in range(epochs) for row in permutation(derived(conversations, str(epoch)), len(rows))]
