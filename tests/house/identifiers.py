"""Reads the identifiers of Python, and of TypeScript and JavaScript, each with its line. Comments and texts have none."""

import ast
import re


def of_python(text):
    r"""The identifiers of a file of Python, without the names of tests, which are sentences.

    >>> list(of_python("import a.b as c\ndef f(d, *, e=1):\n    return f'{d.g}' + h(i=e)  # j\n"))
    [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (2, 'e'), (2, 'f'), (3, 'd'), (3, 'e'), (3, 'g'), (3, 'h'), (3, 'i')]
    >>> list(of_python("def test_it_is_so():\n    try:\n        pass\n    except E as e:\n        global f\n"))
    [(4, 'E'), (4, 'e'), (5, 'f')]
    """
    return sorted({found for node in ast.walk(ast.parse(text)) for found in _of_node(node)})


def _of_node(node):
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            yield node.lineno, name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            if not name.startswith("test_"):
                yield node.lineno, name
        case ast.Attribute(attr=name):
            yield node.end_lineno, name
        case ast.alias(name=path, asname=name):
            yield from ((node.lineno, part) for part in [*path.split("."), name] if part)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from ((node.lineno, name) for name in names)


CODE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*(?:.|\n)*?\*/)|(?P<blank>\s+)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\(?:.|\n))*"|'(?:[^'\\\n]|\\(?:.|\n))*')"""
    r"""|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>=>|.)"""
)
PATTERN = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
TEMPLATE = re.compile(r"(?:[^`\\$]|\\(?:.|\n)|\$(?!\{))*")
# After these an expression begins, so that `/` begins a pattern and `<` an element.
BEFORE_AN_EXPRESSION = {*"([{,;=:?!&|+-*%~^", "=>", "return", "case", "typeof", "await", "yield", "default", ""}


class _Script:
    def __init__(self, text, has_elements):
        self.text, self.has_elements, self.at, self.found = text, has_elements, 0, []

    def code(self, end):
        """Reads up to a closing brace that is not opened here, or to the end of the file."""
        depth, before = 0, ""
        while self.at < len(self.text):
            token = CODE.match(self.text, self.at)
            begins = before in BEFORE_AN_EXPRESSION
            pattern = PATTERN.match(self.text, self.at) if begins and token["sign"] == "/" else None
            if begins and self.has_elements and re.compile(r"<[A-Za-z>]").match(self.text, self.at):
                self.element()
                before = ")"
                continue
            self.at = (pattern or token).end()
            if token["comment"] or token["blank"]:
                continue
            before = ")" if pattern else token["name"] or token["sign"] or ")"
            if token["name"]:
                self.found.append((token.start(), token["name"]))
            elif token["sign"] == "`":
                self.template()
                before = ")"
            elif token["sign"] == "{":
                depth += 1
            elif token["sign"] == "}":
                if depth == 0 and end:
                    return
                depth -= 1

    def template(self):
        while self.at < len(self.text):
            self.at = TEMPLATE.match(self.text, self.at).end()
            if self.text[self.at : self.at + 1] != "$":
                self.at += 1
                return
            self.at += 2
            self.code("}")

    def element(self):
        """Reads `<name attribute={..}>..</name>`, whose texts are no code."""
        self.at += 1
        before = "<"
        while self.at < len(self.text):
            token = CODE.match(self.text, self.at)
            self.at = token.end()
            if token["name"]:
                self.found.append((token.start(), token["name"]))
            elif token["sign"] == "{":
                self.code("}")
            elif token["sign"] == ">":
                return None if before == "/" else self.children()
            before = token["sign"] or before if token["blank"] else token["sign"]

    def children(self):
        while self.at < len(self.text):
            self.at = re.compile(r"[^<{]*").match(self.text, self.at).end()
            if self.text.startswith("</", self.at):
                self.at = self.text.find(">", self.at) + 1
                return
            if self.text.startswith("{", self.at):
                self.at += 1
                self.code("}")
            else:
                self.element()


def of_script(text, has_elements=False):
    r"""The identifiers of a file of TypeScript or JavaScript; `has_elements` if it may have elements, as a `.tsx` has.

    >>> list(of_script("const a = `x ${b + `${c}`} y`; // d\nif (e < 1 && /f'/.test(g)) h('i');"))
    [(1, 'const'), (1, 'a'), (1, 'b'), (1, 'c'), (2, 'if'), (2, 'e'), (2, 'test'), (2, 'g'), (2, 'h')]
    >>> list(of_script("x(<p class='a' key={b > c}>no names {d} here<br />\n it's</p>, e / f / g);", True))
    [(1, 'x'), (1, 'p'), (1, 'class'), (1, 'key'), (1, 'b'), (1, 'c'), (1, 'd'), (1, 'br'), (2, 'e'), (2, 'f'), (2, 'g')]
    """
    script = _Script(text, has_elements)
    script.code(None)
    return [(text.count("\n", 0, at) + 1, name) for at, name in script.found]
