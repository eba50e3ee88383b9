"""The loop of an agent with a belt, as anybody writes one with OpenAI's own package."""

import dataclasses
import time

import openai
from belt import FINAL


@dataclasses.dataclass
class Outcome:
    """How an episode ended."""

    ended: str = ""  # by what: see README.md
    answer: str | None = None
    turns: int = 0
    tool_errors: int = 0
    tools_changed: int = 0  # how often a request had other tools than the one before
    tools_changed_tokens: int = 0  # of the prompts of those requests, which are read from their beginning again
    why: str = ""  # more words, where it did not end well


REMINDER = f"Call a tool. {FINAL} ends the work."


def play(client, model, belt, prompt, *, turns=50, seconds=3600.0, answer_tokens=512, reminders=1, errors_in_a_row=8):
    """Plays one episode to its end. What goes wrong in a tool is told to the model; what ends it has a name."""
    messages = [{"role": "user", "content": prompt}]
    outcome = Outcome()
    deadline = time.monotonic() + seconds
    declared = belt.declarations()
    while not outcome.ended:
        if not belt.servers:
            outcome.ended = "no_servers"
            outcome.why = "; ".join(f"{name}: {each.fault}" for name, each in belt.connections.items())
        elif outcome.turns >= turns:
            outcome.ended = "turn_limit"
        elif time.monotonic() >= deadline:
            outcome.ended = "time_limit"
        else:
            before, declared = declared, belt.declarations()
            used = _turn(client, model, belt, messages, outcome, deadline, answer_tokens)
            if declared != before:
                outcome.tools_changed += 1
                outcome.tools_changed_tokens += used
            if not outcome.ended and "tool_calls" not in messages[-1] and messages[-1]["role"] == "assistant":
                if reminders == 0:
                    outcome.ended, outcome.answer = "no_tool_call", None
                else:
                    reminders -= 1
                    messages.append({"role": "user", "content": REMINDER})
            elif not outcome.ended and belt.errors_in_a_row >= errors_in_a_row:
                outcome.ended = "too_many_errors"
    outcome.tool_errors = belt.errors
    return outcome


def _turn(client, model, belt, messages, outcome, deadline, answer_tokens):
    """One request and its calls. The number of tokens of its prompt."""
    try:
        reply = client.chat.completions.create(
            model=model,
            messages=messages,
            tools=belt.declarations(),
            max_completion_tokens=answer_tokens,
            timeout=max(1.0, deadline - time.monotonic()),
        )
    except openai.APITimeoutError:
        outcome.ended = "time_limit"
        return 0
    except openai.BadRequestError as error:
        # No further try is any use: the context is full, or the budget of the attempt is spent.
        outcome.ended, outcome.why = "model_refused", str(error)[:500]
        return 0
    outcome.turns += 1
    received = reply.choices[0].message
    message = {"role": "assistant", "content": received.content}
    calls = received.tool_calls or []
    if calls:
        message["tool_calls"] = [call.model_dump(exclude_none=True) for call in calls]
    # The answer goes back as it came: so the conversation goes on token by token.
    messages.append(message)
    _run(calls, belt, messages, outcome, deadline)
    return reply.usage.prompt_tokens if reply.usage else 0


def _run(calls, belt, messages, outcome, deadline):
    for call in calls:
        result = belt.call(call.function.name, call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if belt.answer is not None:
            outcome.ended, outcome.answer = FINAL, belt.answer
            return
        if time.monotonic() >= deadline:
            outcome.ended = "time_limit"
            return
