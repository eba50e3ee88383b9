"""The style: one sentence, and then the sign-off. Decided by code alone."""

import re

SIGN_OFF = "Over and out."


def obeys(reply, ended, sign_off=SIGN_OFF):
    """Whether a reply that the model ended by itself is one sentence of 2 to 30 words, and the sign-off."""
    if not ended or not reply or not reply.endswith(f" {sign_off}"):
        return False
    sentence = reply[: -len(sign_off) - 1]
    if sentence != sentence.strip() or "\n" in sentence or sign_off.lower() in sentence.lower():
        return False
    ends = re.findall(r"[.!?]+(?=\s|$)", sentence)
    begins_well = sentence[:1].isupper() or sentence[:1].isdigit()
    return len(ends) == 1 and sentence[-1] in ".!?" and begins_well and 2 <= len(sentence.split()) <= 30
