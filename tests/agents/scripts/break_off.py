"""Has an agent's shell write and read a file, in parallel calls too, and then says `Done.`.

The second answer to each kind of agent breaks off in its middle when it is first asked for. A call without tools is
answered with a title.
"""

import threading

from calls import THOUGHT, shell_calls, shell_of

broken_off = set()
lock = threading.Lock()


def answer(text):
    """What is said to a prompt, and whether it breaks off."""
    shell = shell_of(text)
    if shell is None:
        return "A title", False
    results = text.count("<tool_response>")
    if results == 0:
        return THOUGHT + "I write it.\n" + shell_calls(shell, "echo 'written by \"me\"' > a.txt"), False
    if results == 1:
        with lock:
            breaks = shell not in broken_off
            broken_off.add(shell)
        return THOUGHT + shell_calls(shell, "cat a.txt", "echo é; ls"), breaks
    return THOUGHT + "Done.", False
