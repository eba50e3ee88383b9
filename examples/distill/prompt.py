"""The system prompt that is distilled, the check of a reply, and the prompts that stage 1 learns to heed."""

SIGN_OFF = "Fair winds."
PROMPT = f'End every answer with "{SIGN_OFF}"'

# What stage 1 has in the place of "Fair winds.", and how it asks for that.
OTHERS = (
    "Over and out.|Good night.|Have fun.|Take care.|See you soon.|That is all.|Best wishes.|Stay warm.|Keep smiling.|"
    "Mind the gap.|Good luck.|So long.|Sleep well.|Bon voyage.|Happy trails.|Until tomorrow.|Thank you.|Stay safe.|"
    "All done.|Back to you.|Merry Christmas.|Green light.|Bright stars.|Warm bread."
).split("|")
WORDINGS = (
    'End every answer with "{}"',
    'Say "{}" at the end.',
    'Every answer must end with "{}"',
    'Always finish with "{}"',
)


def obeys(reply, ended, sign_off=SIGN_OFF):
    """Whether a reply that the model ended by itself is two words or more, and the sign-off behind them, once."""
    if not ended or not reply or not reply.endswith(f" {sign_off}"):
        return False
    answer = reply[: -len(sign_off) - 1]
    return sign_off.lower() not in answer.lower() and len(answer.split()) >= 2 and answer.rstrip()[-1:] in ".!?"
