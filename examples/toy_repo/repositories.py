"""Twenty small repositories, each with one seeded bug.

Each is written as it is when it is right, with the words that are put in the place of others to break it. Its cases are
the hidden tests: what an expression of the repaired module is worth, or what it raises. The lines of an expression but
the last are run before it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Repository:
    name: str
    issue: str
    source: str
    right: str
    wrong: str
    cases: dict

    @property
    def file(self):
        return f"{self.name}.py"

    @property
    def repaired(self):
        return self.source.lstrip("\n")

    @property
    def broken(self):
        """The module as the agent finds it."""
        assert self.source.count(self.right) == 1, f"{self.name}: the seeded bug has no place of its own"
        return self.repaired.replace(self.right, self.wrong)

    @property
    def prompt(self):
        return f"{self.issue} The module is {self.file}. Find the mistake, correct it there, and change nothing else."


def raises(error):
    """What a case is worth that ends with this exception."""
    return {"raised": error}


REPOSITORIES = [
    Repository(
        "slugs",
        "Titles with several spaces get slugs with empty parts: 'Hello,  World' becomes 'hello--world'.",
        '''
import re


def slugify(title):
    """A title as it stands in a URL: lower case, words joined by single hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
''',
        'r"[a-z0-9]+"',
        'r"[a-z0-9]*"',
        {
            "slugify('Hello,  World')": "hello-world",
            "slugify('  one two ')": "one-two",
            "slugify('A1')": "a1",
            "slugify('!?')": "",
        },
    ),
    Repository(
        "intervals",
        "Intervals that touch are not merged: merge([(1, 2), (2, 3)]) should be one interval from 1 to 3.",
        '''
def merge(intervals):
    """Overlapping or touching (start, end) pairs as one, sorted by their starts."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
''',
        "start <= merged[-1][1]",
        "start < merged[-1][1]",
        {
            "merge([(1, 2), (2, 3)])": [[1, 3]],
            "merge([(5, 6), (1, 4), (2, 3)])": [[1, 4], [5, 6]],
            "merge([(1, 2), (3, 4)])": [[1, 2], [3, 4]],
            "merge([])": [],
        },
    ),
    Repository(
        "lru",
        "The cache forgets entries that were read a moment ago and keeps those that nobody has asked for.",
        '''
class Cache:
    """Keeps the entries that were used last, as many as `capacity`."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = {}

    def get(self, key, default=None):
        if key not in self.entries:
            return default
        self.entries[key] = self.entries.pop(key)
        return self.entries[key]

    def put(self, key, value):
        self.entries.pop(key, None)
        self.entries[key] = value
        if len(self.entries) > self.capacity:
            del self.entries[next(iter(self.entries))]
''',
        "        self.entries[key] = self.entries.pop(key)\n",
        "",
        {
            "c = Cache(2)\nfor k in 'ab': c.put(k, 1)\nc.get('a')\nc.put('c', 3)\n[*c.entries]": ["a", "c"],
            "c = Cache(1)\nc.put('a', 1)\nc.put('b', 2)\n[c.get('a', 0), c.get('b')]": [0, 2],
            "c = Cache(2)\nfor k in 'abac': c.put(k, 1)\n[c.get(k) for k in 'abc']": [1, None, 1],
        },
    ),
    Repository(
        "roman",
        "to_roman(4) gives 'IIII' and to_roman(90) gives 'LXXXX', while 9 and 40 are right.",
        '''
NUMERALS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]


def to_roman(number):
    """A number from 1 to 3999 in Roman numerals."""
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} has no Roman numeral")
    text = ""
    for value, numeral in NUMERALS:
        text += numeral * (number // value)
        number %= value
    return text
''',
        '''(100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),''',
        '''(100, "C"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (1, "I"),''',
        {
            "[to_roman(n) for n in (4, 9, 40, 90)]": ["IV", "IX", "XL", "XC"],
            "to_roman(1994)": "MCMXCIV",
            "to_roman(3999)": "MMMCMXCIX",
            "to_roman(0)": raises("ValueError"),
        },
    ),
    Repository(
        "moving_average",
        "The moving average leaves its last window out: averages([1, 2, 3], 2) has one value and should have two.",
        '''
def averages(values, size):
    """The means of all windows of `size` values that follow each other."""
    if size < 1:
        raise ValueError("a window holds at least one value")
    return [sum(values[i:i + size]) / size for i in range(len(values) - size + 1)]
''',
        "range(len(values) - size + 1)",
        "range(len(values) - size)",
        {
            "averages([1, 2, 3], 2)": [1.5, 2.5],
            "averages([4], 1)": [4.0],
            "averages([1], 2)": [],
            "averages([1], 0)": raises("ValueError"),
        },
    ),
    Repository(
        "csv_line",
        "A quoted field with a doubled quote loses it: split('\"say \"\"hi\"\"\"') should be one field, say \"hi\".",
        '''
def split(line):
    """The fields of a line of CSV; a quote within quotes is written twice."""
    fields, field, quoted, i = [], "", False, 0
    while i < len(line):
        character = line[i]
        if quoted and line[i:i + 2] == '""':
            field += '"'
            i += 1
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            fields.append(field)
            field = ""
        else:
            field += character
        i += 1
    return fields + [field]
''',
        """            field += '"'\n""",
        "",
        {
            'split(\'"say ""hi"""\')': ['say "hi"'],
            "split('a,\"b,c\",d')": ["a", "b,c", "d"],
            "split('a,,')": ["a", "", ""],
        },
    ),
    Repository(
        "leap",
        "days_in_february(1900) says 29, although 1900 was no leap year; 2000 was one.",
        '''
def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_february(year):
    return 29 if is_leap(year) else 28
''',
        "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        "year % 4 == 0 or year % 400 == 0",
        {
            "[days_in_february(y) for y in (1900, 2000, 2023, 2024, 2100)]": [28, 29, 28, 29, 28],
            "is_leap(1600)": True,
            "is_leap(1999)": False,
        },
    ),
    Repository(
        "topological",
        "order() takes a circle of dependencies and leaves names out of its list; it should raise ValueError.",
        '''
def order(dependencies):
    """Names, each behind those that it depends on; among equals in the order of the alphabet."""
    left = {name: set(needs) for name, needs in dependencies.items()}
    ordered = []
    while left:
        ready = sorted(name for name, needs in left.items() if not needs)
        if not ready:
            raise ValueError("the dependencies go round in a circle")
        ordered += ready
        left = {name: needs - set(ready) for name, needs in left.items() if name not in ready}
    return ordered
''',
        'raise ValueError("the dependencies go round in a circle")',
        "break",
        {
            "order({'a': ['b'], 'b': ['a']})": raises("ValueError"),
            "order({'c': ['a', 'b'], 'a': [], 'b': ['a']})": ["a", "b", "c"],
            "order({'x': ['x'], 'y': []})": raises("ValueError"),
        },
    ),
    Repository(
        "money",
        "Shares of an amount do not add up to it: split_cents(100, 3) gives 33, 33, 33 and loses a cent.",
        '''
def split_cents(amount, people):
    """Shares that differ by a cent at most and add up to the amount; the first ones are the greater."""
    share, rest = divmod(amount, people)
    return [share + (1 if i < rest else 0) for i in range(people)]
''',
        "share + (1 if i < rest else 0)",
        "share",
        {
            "split_cents(100, 3)": [34, 33, 33],
            "split_cents(5, 5)": [1, 1, 1, 1, 1],
            "split_cents(2, 4)": [1, 1, 0, 0],
            "sum(split_cents(9999, 7))": 9999,
        },
    ),
    Repository(
        "wrap",
        "Lines come out one character too long: wrap('ab cd', 4) puts both words on one line of five.",
        '''
def wrap(text, width):
    """Lines of whole words, none longer than `width` unless a word is."""
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
''',
        "len(lines[-1]) + 1 + len(word) <= width",
        "len(lines[-1]) + len(word) <= width",
        {
            "wrap('ab cd', 4)": ["ab", "cd"],
            "wrap('ab cd', 5)": ["ab cd"],
            "wrap('a long-word b', 3)": ["a", "long-word", "b"],
            "wrap('', 3)": [],
        },
    ),
    Repository(
        "search",
        "find() misses the last element of the list: find([1, 3, 5], 5) returns None.",
        '''
def find(values, wanted):
    """Where a sorted list has `wanted`, or None; by halving."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] == wanted:
            return middle
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return None
''',
        "low, high = 0, len(values)",
        "low, high = 0, len(values) - 1",
        {
            "[find([1, 3, 5], n) for n in (1, 3, 5)]": [0, 1, 2],
            "find([7], 7)": 0,
            "find([1, 3, 5], 4)": None,
            "find([], 1)": None,
        },
    ),
    Repository(
        "defaults",
        "Two baskets share their items: what is put in one basket appears in the next.",
        '''
class Basket:
    def __init__(self, items=None):
        self.items = [] if items is None else list(items)

    def add(self, item):
        self.items.append(item)
        return self
''',
        "items=None):\n        self.items = [] if items is None else list(items)",
        "items=[]):\n        self.items = items",
        {
            "Basket().add('a')\nBasket().items": [],
            "mine = ['x']\nBasket(mine).add('y')\nmine": ["x"],
            "Basket(['x']).add('y').items": ["x", "y"],
        },
    ),
    Repository(
        "versions",
        "Version 1.10 counts as older than 1.9.",
        '''
def parts(version):
    return [int(part) for part in version.split(".")]


def newest(versions):
    """The newest of versions such as 1.10.2; None of none."""
    return max(versions, key=parts, default=None)
''',
        "[int(part) for part in version.split(\".\")]",
        "version.split(\".\")",
        {
            "newest(['1.9', '1.10', '1.2'])": "1.10",
            "newest(['2.0', '10.0'])": "10.0",
            "newest(['1.2', '1.2.1'])": "1.2.1",
            "newest([])": None,
        },
    ),
    Repository(
        "flatten",
        "flatten() opens lists only one level deep: flatten([1, [2, [3]]]) keeps [3] as a list.",
        '''
def flatten(values):
    """The values of lists within lists, in their order."""
    flat = []
    for value in values:
        if isinstance(value, list):
            flat.extend(flatten(value))
        else:
            flat.append(value)
    return flat
''',
        "flat.extend(flatten(value))",
        "flat.extend(value)",
        {
            "flatten([1, [2, [3, [4]]]])": [1, 2, 3, 4],
            "flatten([[], [[]]])": [],
            "flatten(['ab', ['c']])": ["ab", "c"],
        },
    ),
    Repository(
        "retry",
        "retry() with three attempts calls the function four times when it keeps failing.",
        '''
def retry(call, attempts):
    """What `call` returns, tried `attempts` times at most; the last error if all fail."""
    for attempt in range(1, attempts + 1):
        try:
            return call()
        except Exception:
            if attempt == attempts:
                raise
''',
        "range(1, attempts + 1):",
        "range(attempts + 1):",
        {
            "n = []\ntry: retry(lambda: n.append(1) or 1 / 0, 3)\nexcept ZeroDivisionError: pass\nlen(n)": 3,
            "retry(lambda: 1 / 0, 1)": raises("ZeroDivisionError"),
            "retry(lambda: 'fine', 2)": "fine",
        },
    ),
    Repository(
        "template",
        "A name that has no value vanishes from the text: fill('{missing}', {}) should leave it as it stands.",
        '''
import re


def fill(template, values):
    """A template with {name} filled in; a name without a value stays as it is."""
    return re.sub(r"\\{(\\w+)\\}", lambda found: str(values.get(found[1], found[0])), template)
''',
        "values.get(found[1], found[0])",
        "values.get(found[1], '')",
        {
            "fill('{missing}', {})": "{missing}",
            "fill('{user}: {user_id}', {'user': 'Ann', 'user_id': 7})": "Ann: 7",
            "fill('{a} {b}', {'a': 0})": "0 {b}",
        },
    ),
    Repository(
        "clock",
        "Adding minutes past midnight gives hours above 23: add('23:30', 45) should be 00:15.",
        '''
def add(time, minutes):
    """A time of day such as 09:05, some minutes later or earlier."""
    hour, minute = map(int, time.split(":"))
    total = (hour * 60 + minute + minutes) % (24 * 60)
    return f"{total // 60:02}:{total % 60:02}"
''',
        "(hour * 60 + minute + minutes) % (24 * 60)",
        "hour * 60 + minute + minutes",
        {
            "add('23:30', 45)": "00:15",
            "add('00:10', -20)": "23:50",
            "add('09:05', 60)": "10:05",
        },
    ),
    Repository(
        "histogram",
        "most_common() leaves words of equal counts as they came; they should be in the alphabet's order.",
        '''
from collections import Counter


def most_common(words, number):
    """The words that are there most often, with their counts; equal ones in the order of the alphabet."""
    return sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))[:number]
''',
        "key=lambda item: (-item[1], item[0])",
        "key=lambda item: -item[1]",
        {
            "most_common(['b', 'a', 'c', 'c'], 2)": [["c", 2], ["a", 1]],
            "most_common(['z', 'y', 'x'], 3)": [["x", 1], ["y", 1], ["z", 1]],
            "most_common([], 1)": [],
        },
    ),
    Repository(
        "matrix",
        "transpose() loses columns of matrices that are wider than high.",
        '''
def transpose(rows):
    """Columns as rows; all rows must be equally long."""
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows differ in length")
    return [[row[i] for row in rows] for i in range(len(rows[0]) if rows else 0)]
''',
        "range(len(rows[0]) if rows else 0)",
        "range(min(len(rows), len(rows[0])) if rows else 0)",
        {
            "transpose([[1, 2, 3]])": [[1], [2], [3]],
            "transpose([[1], [2]])": [[1, 2]],
            "transpose([[1, 2], [3]])": raises("ValueError"),
            "transpose([])": [],
        },
    ),
    Repository(
        "brackets",
        "balanced(')(') and balanced('(') both say True.",
        '''
PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    """Whether every bracket is closed by its own kind, in order."""
    open_ones = []
    for character in text:
        if character in PAIRS.values():
            open_ones.append(character)
        elif character in PAIRS:
            if not open_ones or open_ones.pop() != PAIRS[character]:
                return False
    return not open_ones
''',
        '''            if not open_ones or open_ones.pop() != PAIRS[character]:
                return False
    return not open_ones''',
        '''            if open_ones and open_ones.pop() != PAIRS[character]:
                return False
    return True''',
        {
            "[balanced(t) for t in (')(', '(', '([)]', '([]{})', '')]": [False, False, False, True, True],
            "balanced('f(a[0])')": True,
            "balanced('}')": False,
        },
    ),
]

BY_NAME = {repository.name: repository for repository in REPOSITORIES}
