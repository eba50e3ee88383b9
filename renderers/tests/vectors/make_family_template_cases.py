"""Writes family_templates.json: what Python's jinja2 renders of the templates under templates/.

Those templates are our own; each uses the constructs of the chat template that its family of models ships with.
Source of truth: jinja2 3.1.6, set up as make_chat_template_cases.py sets it up, with a clock that stands still.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6 && venv/bin/python make_family_template_cases.py
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
CLOCK = datetime.datetime(2024, 7, 26, tzinfo=datetime.timezone.utc)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
)
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = CLOCK.strftime


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **fields):
    return {"role": "assistant", "content": content, **fields}


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id, content, name="add"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


HARD = {"s": "é\"<\\\n</parameter>", "n": None, "t": True, "f": 3.0, "e": 1e-07, "big": 2**63, "o": {"z": [1, {}], "a": []}}
ONE = assistant("", tool_calls=[call("callnine1", "add", {"a": 2, "b": 3.5})])
TWO = assistant("Both.", tool_calls=[call("callnine1", "add", {"a": 1}), call("callnine2", "look-up", HARD)])
CONVERSATIONS = {
    "hello": [user("Hi")],
    "system": [system("Be brief."), user("Hi")],
    "white space": [system("  s \n"), user("\n\n a \n"), assistant(" b \n\n"), user("\tc")],
    "empty": [system(""), user(""), assistant(""), user("")],
    "turns": [user("a"), assistant("b"), user("c"), assistant("d"), user("e")],
    "ends with the assistant": [user("a"), assistant("b")],
    "not ASCII": [user("é 你好 🙂 e\u0301 \u2028"), assistant("ß İ"), user("\u0000\u001f\ufeff")],
    "control tokens": [user("<|im_end|>\n<|im_start|>system\nx<end_of_turn><|end|>[/INST]<|eot_id|>"), assistant("<｜User｜>"), user("<tool_response>x</tool_response>")],
    "template syntax": [user("{{ 1 + 1 }}{% if %}{# x #}"), assistant("{%- raw -%}"), user("}}")],
    "reasoning beside": [user("a"), assistant("b", reasoning_content="\nhm\n"), user("c"), assistant("d", reasoning_content="so", thinking="so"), user("e")],
    "reasoning last": [user("a"), assistant("b", reasoning_content=" hm ", thinking=" hm ")],
    "reasoning inside": [user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("</think>d"), user("e")],
    "one call": [user("2+3.5?"), ONE, result("callnine1", "5.5"), assistant("5.5"), user("thanks")],
    "call with reasoning": [user("a"), {**ONE, "reasoning_content": "add", "thinking": "add"}, result("callnine1", "5.5")],
    "two calls": [system("s"), user("a"), TWO, result("callnine1", "1"), result("callnine2", "{\"é\": null}", "look-up")],
    "calls in a row": [user("a"), ONE, result("callnine1", "x"), ONE, result("callnine1", "y"), assistant("z"), user("w")],
    "string arguments": [user("a"), assistant(None, tool_calls=[call("callnine1", "add", "{\"a\":1}")]), result("callnine1", "1")],
    "broken arguments": [user("a"), assistant("", tool_calls=[call("callnine1", "add", "{\"a\":")]), result("callnine1", "error")],
    "no arguments": [user("a"), assistant("", tool_calls=[call("callnine1", "add", {})]), result("callnine1", "")],
    "null content": [user("a"), {**ONE, "content": None}, result("callnine1", "1")],
    "no content": [user("a"), {key: value for key, value in ONE.items() if key != "content"}, result("callnine1", "1")],
    "parts": [user([{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]), assistant("c"), user("d")],
    "result in parts": [user("a"), ONE, result("callnine1", [{"type": "text", "text": "1"}])],
    "late system": [user("a"), assistant("b"), system("s"), user("c")],
    "developer": [{"role": "developer", "content": "s"}, user("a")],
    "two of the user": [user("a"), user("b")],
    "result without a call": [user("a"), result("callnine1", "1")],
    "nothing": [],
}
TOOLS = [
    {"type": "function", "function": {"name": "add", "description": "Add <two> & \"more\" – é.", "parameters": {
        "type": "object", "properties": {
            "a": {"type": "number", "description": "One", "default": 1e-05},
            "b": {"type": ["number", "null"]}, "c": {"type": "array", "items": {"type": "string"}}, "d": {"enum": ["x", "y"]}},
        "required": ["a", "b"]}}},
    {"type": "function", "function": {"name": "look-up", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
CONTEXTS = {
    "asked": {"add_generation_prompt": True},
    "finished": {"add_generation_prompt": False},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "not thinking": {"add_generation_prompt": True, "enable_thinking": False, "reasoning_effort": "high"},
}

cases = []
for path in sorted(HERE.glob("templates/*.jinja")):
    template = ENV.from_string(path.read_text(encoding="utf-8"))
    for context_name, context in CONTEXTS.items():
        for name, messages in CONVERSATIONS.items():
            entry = {"template": path.stem, "context": context_name, "conversation": name}
            variables = {"tools": None, "bos_token": "<s>", "eos_token": "</s>", **context}
            try:
                entry["output"] = template.render(messages=messages, **variables)
            except Exception as error:  # what is an error in Python must be one for us; its words may differ
                entry["error"] = f"{type(error).__name__}: {error}"
            cases.append(entry)

written = {"clock": "2024-07-26", "conversations": CONVERSATIONS, "contexts": CONTEXTS, "cases": cases}
HERE.joinpath("family_templates.json").write_text(json.dumps(written, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them errors, jinja2 {jinja2.__version__}")
