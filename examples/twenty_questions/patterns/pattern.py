"""What a pattern is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """Alternatives of the form `FRAME expression`, of one predicate or of several that differ by a word."""

    slots: dict  # predicate -> the words that stand for it in SLOT
    alternatives: tuple


def one(predicate, *alternatives):
    return Pattern({predicate: ""}, alternatives)


def of(slots, *alternatives):
    return Pattern(slots, alternatives)
