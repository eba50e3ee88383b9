"""Adds 17 and 4 with the tool `add` that a prompt declares, in the words of the program that asks, and says what came out.

smolagents wants the answer as a call, ReAct agents of llama-index and of DSPy have calls and results in the text, and aider wants
a file and the message of a commit.
"""

from calls import call, declares

THOUGHT = "<think>\nI add.\n</think>\n\n"
NUMBERS = '{"a": 17, "b": 4}'


def answer(text):
    """What is said to a prompt, and whether it breaks off."""
    return THOUGHT + action(text), False


def action(text):
    system, question = text.split("<|im_end|>")[0], text.rsplit("<|im_start|>user", 1)[-1]
    if "one-line git commit messages" in system.lower():
        return "feat: write the sum"
    if "sum.txt" in question:
        return "sum.txt\n```\n21\n```"
    if "Action Input:" in system:
        if "Observation: 21" in question:
            return "Thought: I can answer without using any more tools. I'll use the user's language to answer\nAnswer: 21"
        return f"Thought: I need to use a tool to help me answer the question.\nAction: add\nAction Input: {NUMBERS}"
    if "[[ ## next_tool_name ## ]]" in system:
        tool, arguments = ("finish", "{}") if "[[ ## trajectory ## ]]" in question and "observation_0" in question else ("add", NUMBERS)
        return fields(next_thought="I add.", next_tool_name=tool, next_tool_args=arguments)
    if "[[ ## answer ## ]]" in system:
        return fields(reasoning="It was added.", answer="21")
    if declares(text, "final_answer") and "Observation:" in question:
        return call("final_answer", answer="21")
    if "<tool_response>" in text:
        return "Yes."
    return call("add", a=17, b=4)


def fields(**values):
    """As DSPy has them in the text."""
    return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in values.items()) + "[[ ## completed ## ]]"
