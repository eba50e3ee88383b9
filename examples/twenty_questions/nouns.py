"""The nouns, what is true of them, and which of them are held out."""

import csv
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What one of each is called, as it stands in the prompt.
CATEGORIES = {
    "animals": "an animal",
    "foods": "a food",
    "furniture": "a piece of furniture",
    "instruments": "a musical instrument",
    "vehicles": "a vehicle",
    "tools": "a tool",
    "clothes": "a piece of clothing",
    "sports": "a sport",
    "countries": "a country",
    "jobs": "a job",
}


class Noun:
    """One of the 200."""

    def __init__(self, row):
        self.name = row["noun"]
        self.category = row["category"]
        self.facts = frozenset(row["facts"].split()) | {self.category}
        also = [each for each in row["also"].split(";") if each]
        singular = [self.name, *also]
        plural = [row["plural"] or self.name + "s", *(each + "s" for each in also)]
        self.names = {each.lower() for each in [*singular, *plural]}


def _rows(file):
    with (HERE / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


@cache
def nouns():
    """All of them, by name, in alphabetical order within each category."""
    return {
        row["noun"]: Noun(row) for row in sorted(_rows("nouns.tsv"), key=lambda row: (row["category"], row["noun"]))
    }


@cache
def predicates():
    """Of which categories each predicate can be asked, by its name."""
    return {
        row["predicate"]: frozenset(CATEGORIES) if row["asked_of"] == "*" else frozenset(row["asked_of"].split())
        for row in _rows("predicates.tsv")
    }


@cache
def others():
    """Nouns by category that are never what is thought of, so that guessing one is answered by no."""
    found = {category: [] for category in CATEGORIES}
    for row in _rows("others.tsv"):
        found[row["category"]].append(row["noun"])
    return found


@cache
def _names():
    """All names that can be guessed, in lower case, and whose they are."""
    more = {each: each for every in others().values() for each in every}
    names = {form.lower(): each for each in more for form in (each, each + "s")}
    return names | {name: each.name for each in nouns().values() for name in each.names}


def named(text):
    """The noun that goes by this name, in lower case, or None."""
    return _names().get(text)


def holds(predicate, noun):
    """Whether it is true of the noun; None if it cannot be asked of its category."""
    if noun.category not in predicates()[predicate]:
        return None
    return predicate in noun.facts


@cache
def in_category(category):
    return [each for each in nouns().values() if each.category == category]


@cache
def split(category):
    """Those to train on and those held out: every fifth, in alphabetical order, whatever it is."""
    every = in_category(category)
    held_out = every[4::5]
    return [each for each in every if each not in held_out], held_out
