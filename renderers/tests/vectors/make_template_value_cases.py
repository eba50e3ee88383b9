"""Writes template_values.json: what Python's jinja2 makes of filters, tests, functions, methods, operators and slices.

Source of truth: the PyPI package jinja2, set up as in make_chat_template_cases.py. The templates are our own.

    python3 -m venv venv && venv/bin/pip install jinja2 && venv/bin/python make_template_value_cases.py
"""

import copy
import itertools
import json
import pathlib

import make_chat_template_cases as base

CONTEXT = {
    "text": "Hello, wide wörld! 漢字 ß",
    "lines": "one\n\ntwo\tthree\r\nfour",
    "empty": "",
    "none": None,
    "number": 42,
    "negative": -7,
    "float": 2.5,
    "list": [3, 1, 2, 3],
    "words": ["b", "A", "c", "a", "B"],
    "nested": [[1, 2], [3], []],
    "dict": {"b": 1, "a": [True, None], "items": "key"},
    "people": [
        {"name": "Ann", "age": 3, "at": {"x": 1}},
        {"name": "bob", "age": 1, "at": {"x": 2}},
        {"name": "Cid", "age": 3, "at": {"x": 1}},
    ],
}

ENV = base.ENV
ENV.filters["fromjson"] = json.loads


def outcome(template):
    try:
        return {"output": ENV.from_string(template).render(**copy.deepcopy(CONTEXT))}
    except Exception as error:  # what is an error in Python must be one here; its words may differ
        return {"error": f"{type(error).__name__}: {error}"}


EXPRESSIONS = []


def add(*expressions):
    EXPRESSIONS.extend(expressions)


# Filters, each on values of several kinds.
VALUES = ["text", "lines", "empty", "none", "number", "negative", "float", "list", "words", "nested", "dict", "people",
          "missing", "true", "('a', 1)", "'  7 '", "'<a href=\"x\">b & c</a>'", "'3.7'", "1e30", "'x y-z'"]
for name in ["abs", "capitalize", "center(9)", "count", "d('x')", "default('x', true)", "e", "escape", "first",
             "float", "float(1.5)", "forceescape", "int", "int(5)", "int(base=16)", "items | list", "join", "join('-')",
             "last", "length", "list", "lower", "max", "min", "pprint", "reverse | list", "round", "round(1, 'floor')",
             "safe", "sort", "string", "striptags", "title", "tojson", "trim", "trim('Hx ')", "truncate(9)",
             "truncate(9, true, '..', 0)", "unique | list", "upper", "urlencode", "wordcount", "dictsort",
             "indent(2)", "indent(2, true, true)", "batch(2) | list", "slice(2) | list", "sum", "tojson(indent=2)",
             "replace('a', 'b')", "map('string') | list", "select | list", "reject | list", "xmlattr",
             "filesizeformat", "wordwrap(6)", "random | length", "groupby('name') | list", "reverse"]:
    if name in ("random | length", "reverse"):
        continue
    add(*(f"{value} | {name}" for value in VALUES))
add(
    "people | map(attribute='name') | list", "people | map(attribute='at.x') | list",
    "people | map(attribute='no', default='-') | list", "words | map('upper') | join(',')",
    "words | map('replace', 'a', 'z') | list", "people | selectattr('age', 'gt', 2) | map(attribute='name') | list",
    "people | selectattr('age') | list | length", "people | rejectattr('age', 'equalto', 3) | map(attribute='name') | list",
    "list | select('odd') | list", "list | reject('odd') | list", "list | select('in', [1, 2]) | list",
    "people | groupby('age') | list", "people | groupby('age') | map('first') | list",
    "people | groupby('at.x') | map(attribute='grouper') | list", "people | groupby('no', default='z') | length",
    "people | sort(attribute='age') | map(attribute='name') | join", "people | sort(attribute='age,name', reverse=true) | map(attribute='name') | join",
    "people | max(attribute='age')", "people | min(attribute='name')", "people | sum(attribute='age')",
    "people | sum('age', 10)", "nested | sum(start=[])", "words | sort(case_sensitive=true)", "words | sort(reverse=true)",
    "words | unique(case_sensitive=true) | list", "words | max", "words | min(case_sensitive=true)",
    "dict | dictsort(by='value')", "dict | dictsort(reverse=true)", "dict | dictsort(false, 'key')",
    "list | batch(3, 'x') | list", "list | batch(3) | map('length') | list", "list | slice(3, 'x') | list",
    "list | slice(7) | list", "'%s and %d' | format('a', 3)", "'%(x)s' | format(x=1)", "'%s' | format", "'a' | format(1)",
    "'%s' | format('a', x=1)", "list | join(', ', attribute='x')", "people | join('/', attribute='name')",
    "'<' | e ~ '<'", "'<' | safe ~ '<'", "('<' | e) + '<'", "'<' + ('<' | e)", "['<', '<' | e] | join('>')", "'a' | e | upper",
    "'<b>' | escape | escape", "'<b>' | escape | forceescape", "'10' | int(base=2)", "'0x1f' | int(base=16)",
    "'1_000' | int", "'zz' | int(base=36)", "'12abc' | int(default='d')", "'inf' | float", "'inf' | int", "'nan' | float",
    "'1e3' | int", "'-12' | int", "'+5' | int", "' 12 ' | int", "'٣' | int",
    "42.55 | round", "42.55 | round(1)", "42.45 | round(1)", "2.5 | round", "3.5 | round", "42.55 | round(1, 'floor')",
    "42.51 | round(1, 'ceil')", "1234 | round(-2)", "1250 | round(-2)", "1350 | round(-2)", "-2.5 | round", "2.675 | round(2)",
    "1e20 | round", "7 | round(2, 'ceil')", "'a b' | urlencode", "'/a?b=ü' | urlencode", "{'a b': 'c&d'} | urlencode",
    "[('a', 1), ('b', 'x y')] | urlencode", "{'class': 'a b', 'id': none, 'x<': '\"'} | xmlattr",
    "{'a b': 1} | xmlattr", "{} | xmlattr", "{'a': 1} | xmlattr(false)", "1000 | filesizeformat", "1000000 | filesizeformat",
    "1024 | filesizeformat(true)", "123456789 | filesizeformat(true)", "1 | filesizeformat", "'500' | filesizeformat",
    "'the quick brown fox jumps' | wordwrap(10)", "'aaaaaaaaaaaaaaaaaaaa b' | wordwrap(6)",
    "'aaaaaaaaaaaaaaaaaaaa b' | wordwrap(6, false)", "'well-known half-way house' | wordwrap(8)",
    "'well-known half-way house' | wordwrap(8, break_on_hyphens=false)", "'a b c d e f' | wordwrap(3, wrapstring='|')",
    "'foo bar baz qux' | truncate(9)", "'foo bar baz qux' | truncate(11)", "'foo bar baz qux' | truncate(2)",
    "'foo bar baz qux' | truncate(9, leeway=0)", "'see http://a.example/x?y=1, or www.b.org.' | urlize",
    "'http://a.example/long/path' | urlize(10, true)", "'mail a@b.org now' | urlize", "'foo.com (bar.net)' | urlize(target='_blank')",
    "{'a': {'b': 'c' * 90, 'd': [1, 2]}} | pprint", "dict | items | list", "missing | items | list", "dict | length",
    "'a-b (c) [d]' | title", "\"don't\" | title", "'ABC' | lower | upper", "list | tojson", "'é' | tojson(true)",
    "dict | tojson(sort_keys=true)", "dict | tojson(separators=(',', ':'))", "list | tojson(indent='\t')", "('a', 1) | tojson",
    "missing | tojson", "1e30 | tojson", "{1: 2, none: 3, true: 4} | tojson", "range(3) | tojson", "(list | map('abs')) | tojson",
    "'[1, {\"a\": null}]' | fromjson", "'{' | fromjson", "none | fromjson",
    "dict | attr('b')", "x | attr('a')", "list | first", "[] | first", "[] | last",
    "'abc' | first", "'abc' | last", "dict | first", "dict | last", "[] | max", "[] | min", "[] | sum", "[1, 'a'] | sum", "[1, 'a'] | sort",
    "['a'] | sum(start='')", "list | nosuch", "list | map('nosuch') | list", "list | select('nosuch') | list", "list | map | list",
    "list | map(attribute='a', x=1) | list", "5 | list", "none | list", "5 | join", "5 | length", "5 | first", "5 | reverse | list",
    "'abc' | reverse", "'abc' | list", "'a,b' | replace(',', '', 0)", "'aaa' | replace('a', 'b', 2)", "'aaa' | replace('', '-')", "123 | replace(2, 'x')",
    "'<a>' | e | replace('a', '<')", "text | wordcount", "'' | wordcount", "text | center(40)", "'abcd' | center(7)", "'abc' | center(8)", "text | center(3)",
    "'a\nb' | indent('> ')", "'a\n\nb' | indent(width=1, first=true)", "'a\n\nb' | indent(1, blank=true)", "list | unique | list", "nested | unique | list", "nested | map('sum') | list",
    "'x' | default", "missing | default", "none | default('x')", "none | default('x', boolean=true)", "0 | d(1, true)", "missing.x | default('x')",
    "list | count", "list | batch(0) | list", "list | slice(0) | list", "list | batch(-1) | list", "5 | batch(2) | list", "list | batch | list",
    "list | center(5, 6, 7)", "list | upper(1)", "list | join(nosuch=1)", "'x' | trim(chars='x')", "5 | trim", "' x ' | e | trim",
)
# Tests.
for name in ["boolean", "callable", "defined", "escaped", "even", "false", "float", "integer", "iterable", "lower",
             "mapping", "none", "number", "odd", "sequence", "string", "true", "undefined", "upper"]:
    add(*(f"{value} is {name}" for value in VALUES + ["'abc'", "'ABC'", "'aB1'", "'1'", "2", "2.0", "false", "range(2)",
                                                      "dict.items()", "'a' | e", "range", "(list | map('abs'))"]))
add(
    "4 is divisibleby 2", "4 is divisibleby(3)", "4 is divisibleby 0", "1 is eq 1", "1 is equalto 2", "1 is == 1.0", "1 is ne 2", "2 is gt 1", "2 is ge 2",
    "2 is lt 1", "2 is le 2", "2 is greaterthan 1", "2 is lessthan 1", "'a' is in 'abc'", "'a' is in ['a']", "1 is in dict",
    "'abs' is filter", "'nosuch' is filter", "'odd' is test", "'nosuch' is test", "none is sameas none", "1 is sameas true", "true is sameas true",
    "list is sameas list", "1 is nosuch", "1 is not odd", "'a' is not string", "missing is not defined", "dict.b is defined", "dict.zz is defined",
    "missing.x is defined", "none.x is defined", "none.x.y is defined", "list[9] is defined", "'a' is gt 'b'", "'a' is gt 1", "1 is in 5",
)
# Operators.
OPERANDS = ["7", "-7", "2", "0", "2.5", "-0.5", "true", "'ab'", "''", "[1, 2]", "(1, 2)", "none", "missing", "{'a': 1}"]
for operator in ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]:
    add(*(f"{left} {operator} {right}" for left, right in itertools.product(OPERANDS, OPERANDS)))
add(*(f"{sign} {value}" for sign in ["-", "not"] for value in OPERANDS))
add(
    "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0 == true", "[1, [2]] == [1, [2]]", "(1,) == [1]", "{'a': 1} == {'a': 1.0}", "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
    "[1, 2] < [1, 3]", "(1, 'a') < (1, 'b')", "2 ** -1", "2 ** 0.5", "(-8) ** (1 / 3)", "7 % -3", "-7 % 3", "7.5 % -2", "-7 // 2", "7 // -2.0", "10 ** 20", "9223372036854775807 + 1",
    "1 if true", "1 if false", "(1 if false) is defined", "'a' if missing else 'b'", "1 + 2 * 3 ** 2", "-2 ** 2", "(1, 2) + (3,)", "[1] * 3", "3 * 'ab'", "(1,) * 2", "'-' * -1", "'a' 'b'",
    "range(3) == range(3)", "range(5)[1:3]", "range(5)[-1]", "range(5, 0, -2) | list", "range(0, 10, 3)", "range(3)", "range(1, 1) | length", "range(3) | last", "range(2, step=1)", "range()", "range(1.5)", "range(3, 1, 0)", "range(100001)", "range(100000) | length",
    "2 in range(3)", "dict(a=1, b=2)", "dict([('a', 1)])", "dict({'a': 1}, b=2)", "dict(1)", "{'a': 1}.items()", "{'a': 1}.keys()", "{'a': 1}.values()", "{'a': 1}.items() | list", "{'a': 1}.keys()[0]", "{'a': 1}.keys() | first", "{}.items() or 'none'",
    "namespace(a=1).a", "namespace(a=1).b is defined", "namespace({'x': 1}).x", "cycler('a', 'b').next()", "cycler('a', 'b').current", "cycler()", "joiner('-')()", "text.x is defined", "dict.items is defined", "dict.items is callable", "dict['items']", "dict.get('items')", "dict.get('zz')", "dict.get('zz', 5)",
    "dict.get([])", "dict.pop('b')", "dict.update({})", "list.append(1)", "list.index(2)", "list.index(9)", "list.count(3)", "(1, 2, 1).count(1)", "(1, 2).index(2)", "list.copy()", "dict.copy() == dict", "list.nosuch()", "dict.nosuch()", "none.nosuch()", "missing.nosuch()", "5.0.is_integer()", "(5).bit_length()", "text()", "missing()", "dict.b()", "range(2)()",
    "text['upper']()", "text.upper()", "list['count'](3)", "dict.zz.yy", "none.zz", "none['zz']", "5.zz", "list.zz", "list['0']", "text[0]", "text[-1]", "text[99] is defined", "list[-1]", "list[true]", "list[1.0] is defined", "dict[[]]", "dict[1] is defined", "{1: 'a'}[true]", "{1: 'a'}[1.0]", "{true: 'a', 1: 'b'}", "{'a': 1, 'a': 2}", "{[]: 1}", "{(1, []): 1}",
    "[1, 2.0, 'a', none, true, missing]", "('a',)", "()", "{'a': (1, [2])}", "'it\\'s'", "[\"it's\"]", "['\\n\\t\\\\']", "[1e16, 1e15, 1e-5, 0.1, 1.0]", "1e16", "[text]", "['\\x00', '\\u200b']", "['<' | e]",
)
# Texts.
STRINGS = ["text", "'abcABC123'", "''", "'  a b  c '", "'a,b,,c'", "'ÄÖß ǆ'", "'Title Case'", "'12'", "'²3'", "'½'", "'漢字'", "'a\\tb\\nc'", "'a_1'", "'1a'"]
for method in ["capitalize()", "casefold()", "center(12)", "center(11, '*')", "count('a')", "count('')", "endswith('c')", "expandtabs()", "expandtabs(4)",
               "find('b')", "find('zz')", "index('b')", "isalnum()", "isalpha()", "isascii()", "isdecimal()", "isdigit()", "isidentifier()", "islower()", "isnumeric()", "isprintable()", "isspace()", "istitle()", "isupper()",
               "ljust(9, '.')", "lower()", "lstrip()", "lstrip('aH')", "partition(',')", "partition('zz')", "removeprefix('a')", "removesuffix('c')", "replace('a', 'X')", "replace('a', 'X', 1)", "replace('', '-')", "rfind('b')", "rindex('b')", "rjust(9)", "rpartition(',')", "rpartition('zz')",
               "rsplit()", "rsplit(',', 1)", "rsplit(none, 1)", "rstrip()", "split()", "split(',')", "split(',', 1)", "split(none, 1)", "split(maxsplit=1)", "splitlines()", "splitlines(true)", "startswith('a')", "startswith(('x', 'a'))", "strip()", "strip('a1')", "swapcase()", "title()", "upper()", "zfill(9)"]:
    add(*(f"{value}.{method}" for value in STRINGS))
add(
    "'-5'.zfill(4)", "'+5'.zfill(4)", "'a-b'.zfill(5)", "','.join(['a', 'b'])", "','.join([1])", "','.join('abc')", "','.join({'a': 1})", "'abc'.startswith('b', 1)", "'abc'.endswith('b', 0, 2)", "'abc'.startswith('', 3)", "'abc'.startswith('', 4)", "'abcabc'.find('c', 3)", "'abcabc'.find('c', -1)", "'abcabc'.count('a', 1)", "'abcabc'.rfind('a', 0, 3)", "'漢字漢'.find('漢', 1)",
    "'abc'.find('', 3)", "'abc'.find('', 4)", "'abc'.count('', 1)", "''.count('')", "'a'.split('')", "'abc'.index('z')", "'a'.nosuch()", "'a'.upper(1)", "'a'.center()", "'a'.center('b')", "'a'.center(5, 'bb')", "'a'.replace('a')", "'a'.strip(1)", "'a'.startswith(1)", "'a'.join(5)", "'abc'.translate({97: 'x', 98: none})",
    "'{} {}'.format(1, 'a')", "'{1} {0}'.format(1, 'a')", "'{a}'.format(a=1)", "'{a[b]}'.format(a={'b': 1})", "'{0[1]}'.format([1, 2])", "'{:>5}|{:<5}|{:^5}'.format(1, 'a', 'b')", "'{:*^7}'.format('ab')", "'{:05d}'.format(-42)", "'{:+d}'.format(5)", "'{: d}'.format(5)", "'{:,}'.format(1234567)", "'{:_}'.format(1234567)", "'{:x} {:X} {:#x} {:b} {:o}'.format(255, 255, 255, 5, 8)",
    "'{:.2f}'.format(3.14159)", "'{:8.3f}|'.format(2.5)", "'{:e}'.format(12345.678)", "'{:g}'.format(0.00001234)", "'{:g}'.format(1e10)", "'{:g}'.format(100000.0)", "'{:%}'.format(0.256)", "'{:.1%}'.format(0.256)", "'{!r}'.format('a')", "'{!s:>4}'.format('a')", "'{{}}'.format()", "'{}'.format()", "'{x}'.format()", "'{0}{}'.format(1)", "'{'.format()", "'}'.format()", "'{:d}'.format('a')", "'{:s}'.format(1)", "'{:.2}'.format('abc')", "'{:{w}}|'.format('a', w=4)", "'{:,.2f}'.format(1234567.891)", "'{:010,}'.format(1234)", "'{:<08}|'.format(3)", "'{}'.format(none)", "'{:5}'.format(none)", "'{:5}|'.format(true)", "'{:.3}'.format(3.14159)", "'{:.3}'.format(1234.5)", "'{}'.format(1e16)", "'{:c}'.format(97)", "'{:n}'.format(5)", "'{a.b}'.format(a={'b': 1})", "'{a.upper}'.format(a=1)", "'{a}'.format_map({'a': 1})",
    "'%s %r' % ('a', 'b')", "'%d' % 3.7", "'%5d|%-5d|%05d' % (1, 2, 3)", "'%+d % d' % (1, 2)", "'%x %X %o %#x' % (255, 255, 8, 255)", "'%.2f' % 2.675", "'%e' % 12345.678", "'%g' % 0.0001", "'%g' % 1e-5", "'%c' % 'a'", "'%c' % 97", "'%%' % ()", "'%s' % [1]", "'%s' % (1,)", "'%s' % (1, 2)", "'%s %s' % 1", "'a' % 1", "'a' % []", "'a' % {}", "'%(a)s %(b)d' % {'a': 1, 'b': 2}", "'%(z)s' % {'a': 1}", "'%(a)s' % 1", "'%*d' % (5, 1)", "'%.*f' % (1, 2.55)", "'%z' % 1", "'%' % 1", "'%d' % 'a'", "'%.3s' % 'abcdef'", "'%5s|' % 'é'", "'%i' % true", "'%.3d' % 5", "'%s' % none", "'%r' % 'a'", "'%a' % 'é'", "'%F' % 1.5", "'%G' % 1e-10",
)
# Parts of numbers, escapes, signs, and what is written by its address.
add(
    "1.real", "number.real", "float.real", "float.imag", "true.real", "number.imag", "number.denominator", "float.numerator is defined", "text.real is defined", "number['real']",
    "'%5%' % ()", "'%-5%' % 1", "'%(a)%' % {'a': 1}", "'%d%%' % 3", "'%%%%' % ()",
    r"'\a\v\/\U0001F600\q' | tojson", r"'\N{EM DASH}'", r"'\\N{x}' ~ '\\a'",
    "+number", "2 + +3", "-+3", "+text", "text | attr('upper')()", "'a b' | attr('split')(' ') | first", "(text | attr('upper'))()",
    "list | reverse", "range(3) | reverse", "text.upper", "range(3) | reverse | list",
)
# Slices: all bounds, on a list, a tuple, a text of wide characters and a range.
BOUNDS = ["", "0", "1", "2", "-1", "-2", "5", "-5", "9", "-9", "none"]
for start, stop in itertools.product(BOUNDS, BOUNDS):
    for step in ["", "1", "2", "-1", "-2", "3", "-9"]:
        for value in ["[0, 1, 2, 3, 4]", "'a漢é🙂z'"]:
            add(f"{value}[{start}:{stop}:{step}]")
# Of what is constant Jinja takes a slice otherwise than of what is not.
for value in ["(1, number, 3)", "list", "empty", "words[:0]", "range(4)", "(list | tojson)", "missing", "number", "dict"]:
    add(*(f"{value}[{bounds}]" for bounds in ["::-1", "1:", ":-1", "::2", "-2::-1", "2:0:-1", "::0", "'a':", "9:0:-3"]))

# Statements.
STATEMENTS = [
    "{% for a, b in dict.items() %}{{ a }}={{ b }};{% endfor %}", "{% for x in list recursive %}{{ x }}{{ loop([]) }}{% endfor %}",
    "{% for x in nested recursive %}{{ loop.depth }}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}/{{ loop.length }}{% else %}none{% endfor %}", "{% for x in [] %}{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in text %}[{{ x }}]{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ c }}{% endfor %}",
    "{% set outer = namespace(l=none) %}{% for x in [1, 2] %}{% set o = loop %}{% for y in [1] %}{{ o.index }}{% endfor %}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, x=5) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}", "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{{ caller('x') }}{% endmacro %}{% call(a) m() %}<{{ a }}>{% endcall %}", "{% macro m() %}-{% endmacro %}{% call m() %}{% endcall %}",
    "{% macro m(a='x' ~ number) %}{{ a }}{% endmacro %}{{ m() }}", "{% set f = 'x' %}{% macro m() %}{{ f }}{% endmacro %}{% set f = 'y' %}{{ m() }}", "{% macro a() %}A{% endmacro %}{% set b = a %}{{ b() }}{{ b is callable }}{{ a.name }}",
    "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% filter upper %}a{{ text }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}banana{% endfilter %}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x %}a{% set y = 2 %}{% endset %}{{ x }}{{ y is defined }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1 %}{% for x in [1] %}{% set a = 2 %}{% endfor %}{{ a }}", "{% if true %}{% set a = 2 %}{% endif %}{{ a }}", "{% set n = namespace(x=1) %}{% for x in [1, 2] %}{% set n.x = n.x + x %}{% endfor %}{{ n.x }}", "{% set n.x = 1 %}", "{% set dict.x = 1 %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}", "{% block a %}x{{ number }}{% endblock %}", "{% include 'x' %}", "{% raw %}{{ x }}{% endraw %}", "{{ [1, 2] | map('string') | join }}", "{% set g = list | map('string') %}{{ g | list }}{{ g | list }}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}", "{% set j = joiner(',') %}{% for x in list %}{{ j() }}{{ x }}{% endfor %}",
    "{{ dict(**{'a': 1}) }}", "{{ range(*[1, 4]) | list }}", "{% macro m() %}{{ varargs | length }}{% endmacro %}{{ m(*list) }}", "{{ loop is defined }}", "{% for x in [1] %}{{ loop is defined }}{% endfor %}", "{% autoescape false %}{{ '<' }}{% endautoescape %}", "{% autoescape true %}{{ '<' }}{% endautoescape %}", "{{ self.a is defined }}", "{% if missing %}a{% elif none %}b{% elif text %}c{% endif %}", "{% for x in list %}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", "{% for k in dict %}{{ k }}{% endfor %}", "{% for x in range(3) %}{{ loop.last }}{% endfor %}",
    "{{ missing }}", "{{ missing.x }}", "{{ none }}", "{{ none.x }}", "{{ missing + 'a' }}", "{{ 'a' + missing }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ text.split('</think>')[-1].lstrip('\\n') }}", "{{ none.split('x') }}", "{{ missing | upper }}", "{{ dict.items.type is defined }}", "{{ people | selectattr('name', 'in', ['Ann']) | list | length }}",
    "{% set ns = namespace(found=false) %}{% for m in people[::-1] %}{% if not ns.found and m.age == 3 %}{% set ns.found = true %}{{ m.name }}{% endif %}{% endfor %}", "{{ ['a', 'b'] | select('equalto', 'a') | first }}", "{{ '%s' % missing }}", "{{ [missing] }}", "{{ (missing, 1) | first is defined }}", "{{ list | sort | last }}", "{{ list[1:] + [9] }}", "{% do list %}", "{% for x in dict.values() %}{{ x }}{% endfor %}", "{{ dict.items() | length }}", "{{ dict.values() | list | tojson }}", "{{ dict.keys() | join(',') }}",
]


def main():
    cases = [{"template": "{{ " + expression + " }}", **outcome("{{ " + expression + " }}")} for expression in EXPRESSIONS]
    cases += [{"template": template, **outcome(template)} for template in STATEMENTS]
    seen, unique = set(), []
    for case in cases:
        shows_address = " at 0x" in case.get("output", "") or "<generator" in case.get("output", "")
        is_complex = "j)" in case.get("output", "")
        if case["template"] not in seen and not shows_address and not is_complex:
            seen.add(case["template"])
            unique.append(case)
    path = pathlib.Path(__file__).with_name("template_values.json")
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in unique)
    context = json.dumps(CONTEXT, ensure_ascii=False)
    path.write_text('{"context": ' + context + ',\n"cases": [\n' + lines + "\n]}\n", encoding="utf-8")
    print(len(unique))


main()
