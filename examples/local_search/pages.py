"""Two thousand short pages about firms, people and towns that nobody has heard of, and questions that need two of them.

Everything follows from one seed. Pages and questions are in two parts that no link connects: what is asked in training
is never answered by a page of the held-out part, and no name of the held-out part is in a page of the other. Names
stand in brackets, as links do, so that a name is the same tokens wherever it stands.
"""

import random
from dataclasses import dataclass

FIRMS, PEOPLE, TOWNS = 800, 700, 500
STARTS = (
    "Bal Bor Cal Cor Dal Dor Fal Fen Gal Gor Hal Hem Jal Jor Kel Kor Lan Lor Mal Mor Nal Nor Pal Por Ral Rin Sal Sor "
    "Tal Tor Val Vor Wal Win Xan Yal Yor Zan Zel Bren Cram Drun Frem Gran Krel"
).split()
ENDS = (
    "bex bim bod cam cet dak din dov fam fet gan gid gom hax hin jam kam kep kin lak lem lis lum mav mex mik nad net "
    "nix nok pam pex pid rak rem rin rud sam set sik tam tex tok vad vim"
).split()
# The share of each kind that only held-out questions are about.
HELD_OUT = 0.2
GOODS = "boats bread chairs clocks glass hats lamps maps paper rope ships shoes soap tea tiles".split()


QUESTION_TEXTS = {
    "founder born": "Where was the founder of [{}] born?",
    "founder lives": "Where does the founder of [{}] live?",
    "mayor born": "Who is the mayor of the town where [{}] was born?",
    "mayor lives": "Who is the mayor of the town where [{}] lives?",
}


@dataclass
class Question:
    """What is asked, its answer, and the two pages that it is found by."""

    text: str
    answer: str
    path: tuple


def of_person(person, born, lives):
    return f"[{person}] was born in [{born}]. Now [{person}] lives in [{lives}]."


def of_town(town, mayor):
    return f"[{town}] is a town. The mayor of [{town}] is [{mayor}]."


def of_firm(firm, goods, founder):
    return f"[{firm}] is a firm that makes {goods}. [{founder}] founded [{firm}]."


def names():
    """Those of the pages, and behind them those that no page has."""
    chance = random.Random("names")
    made = [start + end for start in STARTS for end in ENDS]
    chance.shuffle(made)
    return made


class Library:
    """The pages by their titles, and the questions of both parts."""

    def __init__(self):
        chance = random.Random("library")
        made = names()
        kinds = [made[:FIRMS], made[FIRMS : FIRMS + PEOPLE], made[FIRMS + PEOPLE : FIRMS + PEOPLE + TOWNS]]
        self.pages, self.train, self.held_out = {}, [], []
        for part in ("train", "held_out"):
            mine = [self.part(kind, part) for kind in kinds]
            questions = self.write(chance, *mine)
            chance.shuffle(questions)
            setattr(self, part, questions)

    @staticmethod
    def part(kind, part):
        border = round(len(kind) * (1 - HELD_OUT))
        return kind[:border] if part == "train" else kind[border:]

    def write(self, chance, firms, people, towns):
        """Writes the pages of a part; returns its questions."""
        born, lives, mayor, founder = {}, {}, {}, {}
        for person in people:
            born[person], lives[person] = chance.sample(towns, 2)
            self.pages[person] = of_person(person, born[person], lives[person])
        for town in towns:
            # Whoever a question names is not its answer.
            mayor[town] = chance.choice([each for each in people if town not in (born[each], lives[each])])
            self.pages[town] = of_town(town, mayor[town])
        for firm in firms:
            founder[firm] = chance.choice(people)
            self.pages[firm] = of_firm(firm, chance.choice(GOODS), founder[firm])
        questions = []

        def ask(kind, first, second, answer):
            questions.append(Question(QUESTION_TEXTS[kind].format(first), answer, (first, second)))

        for firm, person in founder.items():
            ask("founder born", firm, person, born[person])
            ask("founder lives", firm, person, lives[person])
        for person, town in born.items():
            ask("mayor born", person, town, mayor[town])
        for person, town in lives.items():
            ask("mayor lives", person, town, mayor[town])
        return questions


LIBRARY = Library()


def question(task):
    """The question of a task: first those of training, then the held-out ones."""
    if task < len(LIBRARY.train):
        return LIBRARY.train[task]
    return LIBRARY.held_out[task - len(LIBRARY.train)]
