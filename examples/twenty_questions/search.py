"""What the player's search tool knows: a line about each noun, and which nouns of a category have a property."""

from grammar import Inquiry, parse
from nouns import CATEGORIES, holds, in_category, named, nouns, predicates

SHOWN = 6


def search(query, category):
    """A short summary. It knows what is played about no more than the player does: the category."""
    noun = nouns().get(named(query.strip().lower()))
    if noun is not None:
        facts = [each for each in sorted(noun.facts) if each not in CATEGORIES and each in predicates()]
        return f"{noun.name}: {CATEGORIES[noun.category]}; {', '.join(facts).replace('_', ' ')}"
    parsed = parse(query)
    if isinstance(parsed, Inquiry):
        found = [each.name for each in in_category(category) if holds(parsed.predicate, each)]
        if found:
            return f"{parsed.predicate.replace('_', ' ')}: {', '.join(found[:SHOWN])}"
    return "nothing found"
