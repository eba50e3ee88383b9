"""A search by BM25 (Robertson and Zaragoza, 2009) over pages that are in memory."""

import math
import re
from collections import Counter, defaultdict

K1, B = 1.5, 0.75


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


class Index:
    """An index of `{title: text}`. A title counts as part of its page."""

    def __init__(self, pages):
        self.pages = pages
        counted = {title: Counter(words(f"{title} {text}")) for title, text in pages.items()}
        self.lengths = {title: sum(counts.values()) for title, counts in counted.items()}
        self.mean_length = sum(self.lengths.values()) / max(len(pages), 1)
        self.places = defaultdict(list)
        for title, counts in counted.items():
            for word, count in counts.items():
                self.places[word].append((title, count))

    def search(self, query, count):
        """The titles of the pages that fit a query best, at most `count`, the best first."""
        scores = defaultdict(float)
        for word in set(words(query)):
            found = self.places.get(word, [])
            rarity = math.log(1 + (len(self.pages) - len(found) + 0.5) / (len(found) + 0.5))
            for title, times in found:
                norm = K1 * (1 - B + B * self.lengths[title] / self.mean_length)
                scores[title] += rarity * times * (K1 + 1) / (times + norm)
        return sorted(scores, key=lambda title: (-scores[title], title))[:count]
