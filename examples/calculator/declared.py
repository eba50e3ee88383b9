"""What the model reads of its tool besides the question: how the two frameworks declare the calculator, and what they
say of a call that cannot be made. `tests/test_frameworks.py` holds it against the frameworks themselves."""

import json

from sums import DESCRIPTION, INSTRUCTIONS, OPERATIONS

LANGGRAPH = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": DESCRIPTION,
        "parameters": {
            "properties": {
                "a": {"type": "integer"},
                "op": {"enum": list(OPERATIONS), "type": "string"},
                "b": {"type": "integer"},
            },
            "required": ["a", "op", "b"],
            "type": "object",
        },
    },
}
# As the model reads it: the proxy writes a tool of Responses in this order.
OPENAI_AGENTS = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": DESCRIPTION,
        "parameters": {
            "properties": {
                "a": {"title": "A", "type": "integer"},
                "op": {"enum": list(OPERATIONS), "title": "Op", "type": "string"},
                "b": {"title": "B", "type": "integer"},
            },
            "required": ["a", "op", "b"],
            "title": "calculator_args",
            "type": "object",
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def unknown_tool(framework, name):
    if framework is LANGGRAPH:
        return f"Error: {name} is not a valid tool, try one of [calculator]."
    return f"Tool '{name}' not found."


def malformed(framework, a, op, b):
    if framework is not LANGGRAPH:
        return "An error occurred while running the tool. Please try again."
    return (
        f"Error invoking tool 'calculator' with kwargs {{'a': {a}, 'op': '{op}', 'b': {b}}} with error:\n"
        " op: Input should be 'add', 'subtract' or 'multiply'\n Please fix the error and try again."
    )


# What stands around the declarations in the prompt (`tools = "preamble"`). The tokenizer is made from what is said in
# the corpus, and so every word of a prompt has to be said somewhere.
WORDS = f"""{INSTRUCTIONS}

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{json.dumps(LANGGRAPH)}
{json.dumps(OPENAI_AGENTS)}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>
<tool_response>
0
</tool_response>"""
