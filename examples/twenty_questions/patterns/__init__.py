"""The patterns of questions: what may stand in the frames of grammar.py, and which predicate it asks.

IS, HAS, DOES, YOU and USED are frames; a WHOLE question has none. ` IT` is where the noun may stand. SLOT is one of the
words that belong to a predicate.
"""

from . import general, special

PATTERNS = general.PATTERNS + special.PATTERNS
