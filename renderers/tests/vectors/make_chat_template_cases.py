"""Writes chat_templates.json: what Python's jinja2 renders, for the template renderer to be held against.

Source of truth: the PyPI package jinja2 (and Python's json), set up as Hugging Face's apply_chat_template sets it up:
ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, its own tojson, raise_exception and a
`generation` block. The templates and conversations below are our own.

    python3 -m venv venv && venv/bin/pip install jinja2 && venv/bin/python make_chat_template_cases.py
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception

CASES = []


def case(name, template, **context):
    entry = {"name": name, "template": template, "context": context}
    try:
        entry["output"] = ENV.from_string(template).render(**context)
    except Exception as error:  # what is an error in Python must be one for us; its words may differ
        entry["error"] = f"{type(error).__name__}: {error}"
    CASES.append(entry)


def cases(name, templates, **context):
    for index, template in enumerate(templates):
        case(f"{name}/{index}", template, **context)


FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-4, 1e-5, 1.5e-7, 123456789.125, 1e15, 9999999999999998.0, 1e16, 1.25e16, 1e22,
          1e100, 5e-324, 1.7976931348623157e308, 0.30000000000000004, 100000.0, 2.5e-5]
INTS = [0, -1, 42, 2**31, 2**53 + 1, -(2**63), 2**63 - 1, 2**64 - 1]
NESTED = {"b": [1, 2.0, None, True, "é\"\n\t\\'/</x>&"], "a": {"z": {}, "y": [], "x": False}, "": "\u0000\u001f\u007f🙂"}
STRINGS = ["", " ", "a", "it's", 'say "hi"', "both ' and \"", "back\\slash", "line\nbreak\ttab\rret", "é 你好 🙂", "<b>&amp;</b>",
           "\u0000\u0001\u001b\u007f", "\u0085\u00a0\u00ad\u200b\u2028\ufeff", "\u0378", "mixed é'\n"]

for value in FLOATS + INTS + [None, True, False] + STRINGS + [[], {}, [1], {"a": 1}, NESTED, [NESTED, [None]], [True, 1.0, "x"]]:
    label = json.dumps(value, ensure_ascii=True)[:30]
    cases(f"value {label}", [
        "{{ v }}", "{{ v | tojson }}", "{{ v | string }}", "{{ '<' ~ v ~ '>' }}", "{{ [v] }}", "{{ {'k': v} }}",
        "{{ [v, 'x'] | join('-') }}", "{{ v | tojson(indent=2) }}",
    ], v=value)

cases("tojson", [
    "{{ v | tojson(indent=4) }}", "{{ v | tojson(ensure_ascii=True) }}", "{{ v | tojson(separators=(',', ':')) }}",
    "{{ v | tojson(sort_keys=True) }}", "{{ v | tojson(indent=0) }}", "{{ v | tojson(indent=2, separators=(',', ': ')) }}",
    "{{ v | tojson(indent='\t') }}", "{{ v | tojson(True) }}", "{{ undefined_thing | tojson }}", "{{ (1, 'a') | tojson }}",
    "{{ {1: 'a', none: 'b', false: 'c', 1.5: 'd'} | tojson }}", "{{ v.b | tojson | length }}", "{{ 'a<b' | tojson | replace('<', '[') }}",
    "{{ v | tojson | safe }}", "{{ v.items() | list | tojson }}", "{{ range(3) | list | tojson }}", "{{ (1.0 * 3) | tojson }}",
    "{{ (7 / 2) | tojson }} {{ 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 7.0 // 2 }}",
], v=NESTED)

TRIM = [
    "{% if true %}\na\n{% endif %}\nb\n", "  {% if true %}  \n  a\n  {% endif %}  \n b", "{%- if true -%}\n a \n{%- endif -%}\n",
    "x\n  {%- if true %}\n  a\n  {%- endif %}\n  y", "{# c #}\nz", "  {# c #}  \nz", "a {# c #} b", "{{ 'a' }}\nb", "{{- 'a' -}}\n b",
    "\n\n{{ 'a' }}\n\n", "a\n", "a\n\n", "\n", "{% for i in [1,2] %}\n{{ i }}\n{% endfor %}\n", "{%+ if true %}a{% endif %}", "  {%+ if true %}a{%+ endif %}",
    "{% if true +%}\na{% endif %}", "\t{% set x = 1 %}\t\n{{ x }}", "{% set x = 1 %}{{ x }}\n{% set y = 2 %}\n{{ y }}\n", "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc",
    "  {% raw %}  {% if %}  {% endraw %}  \nx", "text   {% if true %}a{% endif %}   text", "{{ '\\n' }}{{ '\\t\\\\' }}{{ \"\\u00e9\\x41\" }}",
    "{{ 'a' 'b' }}", "{%- for i in [1, 2, 3] -%}\n    {{ i }}\n{%- endfor -%}", "a\n    {#- c -#}\n    b", "{% if true %}{% endif %}\n\n\nx",
    "{{ 'x' }}  \n  {% if true %}  y  {% endif %}", "{% generation %}\nhello\n{% endgeneration %}\nb", "a {%- generation -%} hello {%- endgeneration -%} b",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "  {% generation %}  \n  h\n  {% endgeneration %}  \nb",
]
cases("whitespace", TRIM)

MESSAGES = [
    {"role": "system", "content": "  Be brief. "}, {"role": "user", "content": "What's 2+2?\n"},
    {"role": "assistant", "content": "<think>\nsum\n</think>\n\n4"}, {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "5?"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3.0, "s": "é\"<", "n": None, "t": True}}}]},
    {"role": "tool", "content": "5", "tool_call_id": "c1", "name": "add"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Add <two> & \"more\" numbers – é.", "parameters": {"type": "object", "properties": {
    "a": {"type": "number", "default": 1e-05}, "b": {"type": ["number", "null"], "enum": [1, 2.5, None, True]}}, "required": ["a", "b"]}}}]

cases("expressions", [
    "{{ messages[::-1] | map(attribute='role') | join(',') }}", "{{ messages[0].content }}|{{ messages[0]['content'] | trim }}", "{{ messages[1:] | length }}", "{{ messages[-1].role }}",
    "{{ messages[:-1][-1].role }}", "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }}",
    "{% for m in messages %}{{ loop.index0 }}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if loop.nextitem is defined else '-' }} {% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.role }}{% else %}none{% endfor %}", "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if m.role == 'tool' %}{% break %}{% endif %}{{ m.role }} {% endfor %}",
    "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if m.role == 'tool' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.n }}",
    "{{ x is defined }} {{ messages is defined }} {{ messages[0].nothing is defined }} {{ messages[0].nothing is none }} {{ messages[4].content is none }}", "{{ x }}|{{ messages[0].nothing }}|{{ x or 'default' }}|{{ x | default('d') }}|{{ '' | default('d', true) }}",
    "{{ messages[4].content }}", "{{ messages[0].content is string }} {{ messages[3].content is string }} {{ messages[3].content is iterable }} {{ messages[0] is mapping }} {{ messages is sequence }} {{ 'a' is sequence }} {{ 1 is number }} {{ 1.0 is float }} {{ 1 is integer }} {{ true is boolean }} {{ true is number }} {{ true is integer }}",
    "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}|{{ messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    "{{ '</think>' in messages[2].content }} {{ 'x' not in messages[2].content }} {{ 'role' in messages[0] }} {{ 'name' in messages[0] }} {{ 3 in [1, 2, 3] }}",
    "{{ messages[0].get('content') }}|{{ messages[0].get('nope') }}|{{ messages[0].get('nope', 'd') }}|{{ messages[0].keys() | list }}|{{ messages[0].values() | list }}",
    "{% for k, v in messages[5].items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in messages[5] | items %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in messages[5] | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{{ messages[4].tool_calls[0].function.arguments | tojson }}", "{{ messages[4].tool_calls[0].function.arguments }}", "{{ tools | tojson }}", "{% for tool in tools %}{{ tool | tojson(indent=4) }}\n\n{% endfor %}", "{{ tools }}", "{{ messages }}",
    "{% for k, v in messages[4].tool_calls[0].function.arguments | items %}<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}",
    "{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abc'[::-1] }}{{ 'abcdef'[1:4] }}{{ 'abc'[:1] | upper }}", "{{ 'a' + 'b' }}{{ 1 + 2 }}{{ [1] + [2] }}{{ 'a' * 3 }}{{ [0] * 2 }}", "{{ 'a' + 1 }}", "{{ 1 ~ 'a' ~ none ~ true ~ 1.5 }}",
    "{{ 'x' if false }}|{{ 'x' if true else 'y' }}", "{{ not true }} {{ true and 'a' }} {{ false or none }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ 1 < 2 <= 2 }} {{ none == none }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1.0} }}",
    "{{ raise_exception('no ' ~ messages[0].role) }}", "{{ x.y }}", "{{ messages[99] }}", "{{ messages[0].content.nope() }}", "{{ 1 / 0 }}", "{% if", "{{ 'abc' | nofilter }}", "{{ messages[0] + 1 }}",
    "{% macro field(name, value='d') %}<{{ name }}:{{ value }}>{% endmacro %}{{ field('a') }}{{ field('b', 2) }}{{ field(name='c', value=none) }}", "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
    "{% macro m() %}\n  a\n{% endmacro %}[{{ m() | trim }}]{{ m() ~ 'x' }}", "{% set t %}block é <b>{% endset %}{{ t }}{{ t | length }}", "{% with a = 1, b = 'x' %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% filter upper %}abc{% endfilter %}",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}",
    "{% for i in range(1, 10, 3) %}{{ i }}{% endfor %}", "{{ range(3) | list }}", "{{ dict(a=1, b='x') }}", "{{ dict(messages[0], name='n') }}", "{{ (1,) }} {{ (1, 'a') }} {{ () }}", "{{ messages | map(attribute='nope') | list | length }}", "{{ 5 | string | length }}", "{{ '5' | int + 1 }} {{ 'x' | int }} {{ '2.5' | float }} {{ 3 | float }} {{ 2.7 | int }}",
    "{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 7 | abs }} {{ -7 | abs }}", "{{ [3, 1, 2] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ [1, 2, 3] | sum }} {{ [1, 2] | first }} {{ [1, 2] | last }} {{ [3, 1] | min }} {{ [3, 1] | max }}", "{{ [1, 1, 2] | unique | list }} {{ 'a,b' .split(',') | reverse | list }} {{ 'abc' | reverse }} {{ [1,2,3,4,5] | batch(2) | list }}",
    "{{ messages | groupby('role') | length }}", "{{ 'a b' | title }} {{ 'aBC' | capitalize }} {{ 'ABC' | lower }} {{ 'a-b-c' | replace('-', '+', 1) }} {{ ' a ' | trim }}| {{ 'xxaxx' | trim('x') }}", "{{ '%s and %d and %.2f' | format('a', 3, 1.5) }} {{ '{} {name}'.format(1, name='n') }} {{ '{0}{1}{0}'.format('a', 'b') }}", "{{ '<a>' | e }} {{ '<a>' | escape }} {{ '<a>' | safe }}", "{{ 'line one\\nline two' | indent(4) }}|{{ 'line one\\n\\nline two' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(2, blank=true) }}", "{{ 'hello' | list }} {{ {'a': 1} | list }} {{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ messages | tojson | length > 10 }}", "{% if tools %}T{% endif %}{% if nothing %}N{% endif %}{% if not messages[0].tool_calls %}O{% endif %}", "{{ loop is defined }}", "{{ messages[0].content | length }} {{ '🙂é' | length }} {{ messages | count }}", "{{ 'a' is in ['a'] }} {{ 3 is divisibleby 3 }} {{ 3 is odd }} {{ 4 is even }} {{ none is none }} {{ x is undefined }} {{ 'a' is eq 'a' }} {{ 'a' is equalto 'a' }} {{ 2 is gt 1 }} {{ 'A' is upper }} {{ 'a' is lower }} {{ false is false }} {{ true is true }} {{ 'a' is sameas 'a' }} {{ none is sameas none }}",
    "{{ (messages | last).role }}", "{{ messages[-1]['content'] | string | trim | upper }}", "{% set m = messages %}{% set m = m[1:] %}{{ m[0].role }}", "{%- set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}{{ loop_messages | length }}", "{% call(x) wrap() %}{{ x }}{% endcall %}", "{% macro wrap() %}<{{ caller('in') }}>{% endmacro %}{% call(x) wrap() %}{{ x }}{% endcall %}", "{{ messages | map('tojson') | join('\\n') }}", "{{ messages | map(attribute='content') | select('string') | list }}", "{{ ['a', '', none] | select | list }} {{ ['a', ''] | reject('equalto', '') | list }} {{ [1, 2, 3] | select('gt', 1) | list }} {{ ['a', 'b'] | map('upper') | join }}", "{{ messages | selectattr('tool_calls', 'defined') | list | length }} {{ messages | selectattr('tool_calls') | list | length }} {{ messages | rejectattr('content', 'none') | list | length }}",
    "{{ [1, [2, 3]] }} {{ {'a': {'b': [none]}} }} {{ ['it\\'s', 'x'] }}", "{{ messages[0]['role'] ~ ':' ~ messages[0]['content'] }}", "{{ ('a' ~ 'b') | upper }} {{ 'a' | upper ~ 'b' }}", "{{ [] | first }}|{{ [] | last }}|{{ [] | join }}", "{{ 1_000 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 0x1f }} {{ 0b11 }} {{ 0o17 }}", "{{ 10 ** 20 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 1e300 * 1e10 }} {{ -1e300 * 1e10 }}", "{{ 3 | tojson }}{{ 'x' | tojson }}{{ none | tojson }}", "{{ {'a': 1, 'b': 2}.items() | list }}", "{{ {'a': 1}['a'] }}{{ {'a': 1}.a }}{{ {'a': 1}['b'] }}", "{{ [1, 2, 3].index(2) }} {{ [1, 2, 1].count(1) }}", "{{ 'a' == \"a\" }} {{ 'é' | upper }} {{ 'ß' | upper }} {{ 'İ' | lower | length }} {{ 'ΑΣ' | lower }}", "{{ messages.append({}) }}", "{{ messages[0].update({}) }}", "{{ messages[0].__class__ }}", "{{ true + 1 }} {{ true == 1 }}", "{{ messages[0].items() | length }}", "{{ [1,2,3][5:] }}{{ [1,2,3][-2:] }}{{ [1,2,3][::2] }}{{ [1,2,3][::-2] }}", "{{ ['x', 'y'] | join(', ') | upper }}", "{{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }} {{ [{'a': 2}, {'a': 1}] | sort(attribute='a') | map(attribute='a') | list }} {{ [{'a': 1}, {'a': 2}] | map(attribute='b', default='d') | list }} {{ [{'a': 1}] | join(',', attribute='a') }}", "{{ 'a' if x is defined else 'b' if y is defined else 'c' }}", "{{ x.y is defined }}", "{{ messages[0].a.b }}", "{% set j = joiner(',') %}{{ j() }}a{{ j() }}b", "{% for i in [1,2,3] %}{{ loop.cycle('o', 'e') }}{{ loop.changed(i > 1) }}{{ loop.depth }}{% endfor %}", "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %}{% endfor %}",
], messages=MESSAGES, tools=TOOLS)

STRING_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('x ')", "upper()", "lower()", "title()", "capitalize()", "split()", "split(' ')", "split('x', 1)", "rsplit('x', 1)", "splitlines()", "startswith('x')", "startswith(('a', ' '))", "endswith('x')", "replace('x', 'yy')", "replace('x', 'y', 1)", "find('x')", "rfind('x')", "count('x')", "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "isalnum()", "partition('x')", "rpartition('x')", "removeprefix('x')", "removesuffix('x')", "ljust(9)", "rjust(9, '.')", "index('x')", "join(['a', 'b'])", "isnumeric()", "split('x')", "split(sep='x', maxsplit=1)"]
for text in ["xax xbx", "  é x\tÉ\n\nline\r\nx ", "", "123", "Don't STOP x", "\u001c x\u001fa\rb\u000bc\u2028x\u001d", "\u00a0nb\u00a0\u2003x\u200b"]:
    cases(f"method on {text!r}", ["{{ s." + method + " }}" for method in STRING_METHODS] + ["{{ s | trim }}|", "{{ s | title }}", "{{ s | capitalize }}", "{{ s | upper }}", "{{ s | indent }}", "{{ s | replace('x', '') }}", "{{ s | list }}", "{{ s | reverse }}"], s=text)

CHATML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\n<tool_call>\\n{\\"name\\": <function-name>}\\n</tool_call><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
            {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""
LLAMA = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% else %}
{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}

{% endif %}
{% endfor %}"""
XML_TOOLS = """{%- macro render_extra(d, skip) %}
    {%- for key in d if key not in skip %}
        {%- set v = d[key] %}
        {%- if v is mapping or (v is sequence and v is not string) %}
            {{- '\\n<' ~ key ~ '>' ~ (v | tojson | safe) ~ '</' ~ key ~ '>' }}
        {%- else %}
            {{- '\\n<' ~ key ~ '>' ~ (v | string) ~ '</' ~ key ~ '>' }}
        {%- endif %}
    {%- endfor %}
{%- endmacro %}
{%- for tool in tools %}
    {%- set tool = tool.function if tool.function is defined else tool %}
    {{- '<function>\\n<name>' ~ tool.name ~ '</name>' }}
    {%- for name, fields in tool.parameters.properties | items %}
        {{- '\\n<parameter>' ~ name }}{{- render_extra(fields, ['enum']) }}{{- '</parameter>' }}
    {%- endfor %}
    {{- render_extra(tool, ['name', 'parameters']) }}
    {{- '\\n</function>' }}
{%- endfor %}"""
cases("engine", ["{% raw %}\n{{ a }}\n{% endraw %}\nb", "{% for i in none %}{{ i }}{% endfor %}", "{{ '' ~ v }}", "{{ v }}", "{{ [v] | join }}"], v=["\u2028"])
SHORT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello <|im_end|> é\n"}, {"role": "user", "content": ""}]
for name, template in [("chatml", CHATML), ("qwen", QWEN), ("llama", LLAMA), ("mistral", MISTRAL), ("xml tools", XML_TOOLS)]:
    for generation in [True, False]:
        for tools in [[], TOOLS] if name == "xml tools" else [None, TOOLS, []]:
            for index, messages in enumerate([SHORT, SHORT[:1], MESSAGES[:2], MESSAGES[:3], MESSAGES]):
                case(f"{name}/{generation}/{tools is not None}/{index}", template, messages=messages, tools=tools, add_generation_prompt=generation, bos_token="<s>", eos_token="</s>")

path = pathlib.Path(__file__).with_name("chat_templates.json")
path.write_text(json.dumps(CASES, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
print(f"{len(CASES)} cases, {sum('error' in c for c in CASES)} of them errors, jinja2 {jinja2.__version__}")
