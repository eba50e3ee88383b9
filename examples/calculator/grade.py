"""The grader of both agents. It goes by the calls that the calculator itself has written down, and not by what a reply
says was called or found; of a reply it reads the final answer alone."""

import json
import re
from collections import namedtuple
from dataclasses import dataclass, field

import sums

# A call that the calculator has answered.
Made = namedtuple("Made", "a op b result")
# A call that the model asked for: the tool's name, and the arguments as text or as an object.
RequestedCall = namedtuple("RequestedCall", "name arguments")


@dataclass
class Record:
    """What the calculator of an episode writes down."""

    made: list = field(default_factory=list)


TOOL = "calculator"
FOR_THE_CALL, FOR_THE_ANSWER = 0.3, 0.7
NUMBER = re.compile(r"(?<![\w.,-])-?[0-9]+(?!\w|[.,][0-9])")


def read(answer):
    """The number in an answer, if it has one and no other digits; else None."""
    if not isinstance(answer, str) or len(answer) > 1000:
        return None
    found = NUMBER.findall(answer)
    if len(found) != 1 or len(found[0]) > 12 or len(re.findall(r"\d+", answer)) != 1:
        return None
    return int(found[0])


def is_right(made, task):
    """Whether a call is the one that was asked for; a sum and a product may have their numbers in either order."""
    if made.op != task.op:
        return False
    if task.op == "subtract":
        return (made.a, made.b) == (task.a, task.b)
    return sorted((made.a, made.b)) == sorted((task.a, task.b))


def fault(requested):
    """What is wrong with a call before any calculator sees it, or None."""
    if requested.name != TOOL:
        return "unknown_tool"
    arguments = requested.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return "malformed_arguments"
    if not isinstance(arguments, dict) or set(arguments) != {"a", "op", "b"}:
        return "malformed_arguments"
    numbers = [arguments["a"], arguments["b"]]
    if any(type(number) is not int for number in numbers) or arguments["op"] not in list(sums.OPERATIONS):
        return "malformed_arguments"
    return None


def grade(task, requested, made, answer):
    """The reward of an episode, and its components.

    `requested` are the calls that the model wrote, `made` those that the calculator answered, `answer` is the final reply.
    The last call that was made is the one that counts, so that calling everything earns no more than one call does.
    """
    called = bool(made) and is_right(made[-1], task)
    solved = called and read(answer) == task.result
    faults = [fault(call) for call in requested] or ["no_call"]
    errors = {kind: faults.count(kind) for kind in ("no_call", "unknown_tool", "malformed_arguments")}
    return {
        "reward": FOR_THE_CALL * called + FOR_THE_ANSWER * solved,
        "solved": float(solved),
        "right_call": float(called),
        "tool_errors": float(sum(errors.values())),
        **{f"tool_errors/{kind}": float(count) for kind, count in errors.items()},
        f"solved/{task.op}": float(solved),
    }
