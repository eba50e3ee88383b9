"""What a question asks: a guess of one noun, one predicate, or nothing that is understood.

A question is read as a whole or not at all: it has the form of a frame (`Is it ...?`, `Does it have ...?`, `Can you ...
it?`), and what stands in the frame is one of the patterns. No word is looked for by itself, so that two questions in
one, negations, lists and remarks are not understood.
"""

import re
from dataclasses import dataclass
from functools import cache

from nouns import named
from patterns import PATTERNS

LONGEST = 120  # characters; what is longer is no short question, and is not read


@dataclass(frozen=True)
class Guess:
    """Is it this noun?"""

    noun: str


@dataclass(frozen=True)
class Inquiry:
    """Does this predicate hold?"""

    predicate: str


_KIND = (
    r"(?:thing|one|object|item|animal|creature|food|piece of furniture|(?:musical )?instrument|vehicle|tool|garment|"
    r"piece of clothing|sport|game|country|nation|place|job|profession|person)"
)
# The longest first: what follows it is looked up as a whole.
_IT = rf"(?:(?:the|your|this|that|these) (?:noun|word|answer|secret|{_KIND})|it|this|that|they|these|he|she)"
_OFTEN = (
    r"(?: (?:usually|normally|typically|generally|often|mostly|mainly|commonly|primarily|also|really|actually|"
    r"probably))?"
)
_SOME = rf"(?:something|somebody|someone|an? {_KIND}|one)"
_WHICH = r"(?:that|which|who)"
_PEOPLE = r"(?:you|i|we|one|people|humans|someone|a person|most people)"
_VERB = r"(?:can|could|do|does|would|will|may|must|should)"

# What stands in a frame is its `inside`.
FRAMES = {
    "IS": [
        rf"(?:is|are) {_IT}{_OFTEN} INSIDE",
        rf"(?:could|might|would) {_IT} be INSIDE",
        rf"would {_PEOPLE} (?:say|call|consider) {_IT}(?: is| as)? INSIDE",
        rf"(?:is|are) {_IT} {_SOME} {_WHICH} (?:is|are){_OFTEN} INSIDE",
        rf"are you thinking of {_SOME} {_WHICH} (?:is|are){_OFTEN} INSIDE",
        r"are you thinking of INSIDE",
    ],
    "HAS": [
        rf"(?:does|do) {_IT}{_OFTEN} (?:have|possess) INSIDE",
        rf"(?:has|have) {_IT}(?: got)? INSIDE",
        rf"(?:is|are) {_IT} {_SOME} (?:with|{_WHICH} (?:has|have)) INSIDE",
        rf"(?:is|are) there INSIDE (?:on|in) {_IT}",
    ],
    "DOES": [
        rf"(?:does|do|can|could|will|would) {_IT}{_OFTEN} INSIDE",
        rf"(?:is|are) {_IT}{_OFTEN} (?:able|known|used|made|meant) to INSIDE",
        rf"(?:is|are) {_IT} {_SOME} {_WHICH} can INSIDE",
    ],
    "YOU": [
        rf"{_VERB} {_PEOPLE}{_OFTEN} INSIDE",
        rf"(?:is|are) {_IT} {_SOME}(?: {_WHICH})? {_PEOPLE}(?: can| could| would)?{_OFTEN} INSIDE",
    ],
    "USED": [
        rf"(?:is|are) {_IT}{_OFTEN} (?:used|made|meant|intended)(?: by people)? (?:for|to|in|on|as) INSIDE",
        rf"(?:is|are) {_IT} for INSIDE",
        rf"(?:does|do) {_PEOPLE} use {_IT} (?:for|to|in|on) INSIDE",
        rf"can {_IT} be used (?:for|to|in) INSIDE",
    ],
    "WHOLE": [r"INSIDE"],
}
_FORMS = [
    (name, re.compile(form.replace("INSIDE", "(?P<inside>.+)"))) for name, forms in FRAMES.items() for form in forms
]

_LEAD = re.compile(r"(?:(?:ok|okay|so|well|hmm|now|and|question|first question|my (?:next )?question is)[,:]? )?")
_GUESSES = re.compile(
    rf"(?:(?:is|are) {_IT}|could it be|might it be|would it be|i guess(?: that)? (?:it is|it's)|i guess|my guess is|"
    rf"(?:it|the answer|the noun|your noun) is|it's|are you thinking of|is the (?:noun|word|answer|{_KIND})) "
    r"(?P<article>(?:an?|the) )?(?P<noun>[a-z -]+)"
)


def _inside(alternative, words):
    """The frame of a pattern's alternative, and the expression of what stands in it."""
    frame, _, inside = alternative.replace("SLOT", f"(?:{words})").partition(" ")
    # IT in a pattern is where the noun itself may stand, or nothing if the frame has named it.
    inside = inside.replace(" IT", rf"(?: {_IT}| them| one)?")
    return frame, f"(?:{inside})(?: {_KIND})?" if frame == "IS" else f"(?:{inside})"


@cache
def _compiled():
    """For each frame and predicate one expression of what stands in the frame."""
    every = {}
    for pattern in PATTERNS:
        for predicate, words in pattern.slots.items():
            for alternative in pattern.alternatives:
                frame, inside = _inside(alternative, words)
                every.setdefault((frame, predicate), []).append(inside)
    return {which: re.compile("|".join(insides)) for which, insides in every.items()}


def _normal(text):
    """The question in lower case without its mark; None if it has not the form of one short question."""
    text = text.strip().replace("\u2019", "'")
    if not text or len(text) > LONGEST:
        return None
    text = re.sub(r" *[?.!]$", "", text.lower())
    if not re.fullmatch(r"[a-z][a-z0-9' ,:-]*", text) or "  " in text:
        return None
    text = text[_LEAD.match(text).end() :]
    # A comma or colon elsewhere separates things, of which only one may be asked.
    return None if re.search(r"[,:]", text) else text


@cache
def asks():
    """Every predicate that some question asks."""
    return {predicate for _, predicate in _compiled()}


def matching(text):
    """All predicates that a question in lower case asks. More than one is a fault of the patterns."""
    insides = {(name, found["inside"]) for name, form in _FORMS if (found := form.fullmatch(text))}
    return sorted(
        {
            predicate
            for (frame, predicate), expression in _compiled().items()
            for name, inside in insides
            if name == frame and expression.fullmatch(inside)
        }
    )


def parse(text):
    """What is asked: a `Guess`, an `Inquiry`, or None."""
    text = _normal(text)
    if text is None:
        return None
    if alone := named(re.sub(r"^(?:an?|the) ", "", text)):
        return Guess(alone)
    guess = _GUESSES.fullmatch(text)
    noun = named(guess["noun"]) if guess else None
    if noun and guess["article"]:
        return Guess(noun)
    # Without an article `orange` is a colour and `fly` no insect; countries and sports are guessed without one.
    if matches := matching(text):
        return Inquiry(matches[0])
    return Guess(noun) if noun else None
