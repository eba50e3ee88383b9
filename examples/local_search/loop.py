"""The agent's loop: tools of the Chat Completions API, until the model answers in words."""

import json

from bm25 import Index
from pages import LIBRARY

TURNS, QUERY, FOUND = 5, 200, 1
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Find a page.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    }
]
INDEX = Index(LIBRARY.pages)


def search(arguments):
    """What the tool tells, and the titles that it found."""
    try:
        query = json.loads(arguments)["query"]
    except (ValueError, TypeError, KeyError):
        return "error: search takes an object with a text named query", []
    if not isinstance(query, str) or len(query) > QUERY:
        return f"error: query is a text of at most {QUERY} characters", []
    titles = INDEX.search(query, FOUND)
    return "\n".join(LIBRARY.pages[title] for title in titles) or "nothing found", titles


def right(answer, wanted):
    """Whether an answer is the one that is wanted, and nothing else but a full stop and spaces around it."""
    return answer is not None and answer.strip().removesuffix(".").lower() == wanted.lower()


def play(question, ask):
    """Answers a question; `ask(messages, tools)` gives the model's message. Returns the reward and other numbers."""
    messages = [{"role": "user", "content": question.text}]
    answer, searches, errors, seen = None, 0, 0, []
    for _ in range(TURNS):
        message = ask(messages, TOOLS)
        if not message.tool_calls:
            answer = message.content
            break
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result, titles = "error: there is only search", []
            if call.function.name == "search":
                result, titles = search(call.function.arguments)
            errors += result.startswith("error")
            searches += 1
            seen += titles
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    first, second = question.path
    return {
        "reward": float(right(answer, question.answer)),
        "searches": searches,
        "tool_errors": errors,
        "first_page": float(first in seen),
        "second_page": float(second in seen),
        "answered": float(answer is not None),
    }
