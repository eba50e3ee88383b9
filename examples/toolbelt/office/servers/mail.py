"""Mail, in folders: inbox, sent, and whatever a mail is moved to."""

import re

from ..entries import load, next_id, save
from ..world import OfficeError, world


def _folders():
    return [name.removesuffix(".json") for name in world().names("mail", ".json")]


def _all():
    return {folder: load(f"mail/{folder}.json") for folder in _folders()}


def _found(id):
    """The folders, the one that a mail is in, and the mail."""
    folders = _all()
    for folder, mails in folders.items():
        for mail in mails:
            if mail["id"] == id:
                return folders, folder, mail
    raise OfficeError(f"there is no mail with the id {id}")


def _line(mail):
    return f"{mail['id']}: from {mail['from']}: {mail['subject']}"


def _sent(to, subject, text):
    if not to.strip():
        raise OfficeError("a mail needs somebody whom it is to")
    folders = _all()
    sent = folders.get("sent", [])
    mail = {"id": next_id(*folders.values()), "from": "me", "to": to, "subject": subject, "text": text}
    save("mail/sent.json", [*sent, mail])
    return "sent"


def mail_list(folder: str = "inbox") -> str:
    """Lists mails."""
    if folder not in _folders():
        raise OfficeError(f"there is no folder {folder}; there are {', '.join(_folders())}")
    return "\n".join(map(_line, load(f"mail/{folder}.json"))) or "no mails"


def mail_read(id: int) -> str:
    """Reads a mail."""
    mail = _found(id)[2]
    return f"from {mail['from']} to {mail['to']}\n{mail['subject']}\n\n{mail['text']}"


def mail_search(text: str) -> str:
    """Finds the mails of all folders that contain a text."""
    lines = [
        f"{folder}/{_line(mail)}"
        for folder, mails in _all().items()
        for mail in mails
        if text.lower() in f"{mail['from']} {mail['subject']} {mail['text']}".lower()
    ]
    return "\n".join(lines) or "no mail contains it"


def mail_send(to: str, text: str, subject: str = "") -> str:
    """Sends a mail."""
    return _sent(to, subject, text)


def mail_reply(id: int, text: str) -> str:
    """Answers a mail."""
    mail = _found(id)[2]
    return _sent(mail["from"], f"Re: {mail['subject']}", text)


def mail_forward(id: int, to: str, text: str = "") -> str:
    """Sends a mail on to somebody else."""
    mail = _found(id)[2]
    return _sent(to, f"Fwd: {mail['subject']}", f"{text}\n\n{mail['text']}".strip())


def mail_move(id: int, folder: str) -> str:
    """Moves a mail to a folder, which is made if there is none of this name."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", folder):
        raise OfficeError(f"{folder!r} is no name of a folder: small letters, digits and - are")
    folders, here, mail = _found(id)
    if here != folder:
        save(f"mail/{folder}.json", [*folders.get(folder, []), mail])
        save(f"mail/{here}.json", [other for other in folders[here] if other is not mail])
    return "moved"


def mail_delete(id: int) -> str:
    """Deletes a mail for good."""
    folders, here, mail = _found(id)
    save(f"mail/{here}.json", [other for other in folders[here] if other is not mail])
    return "deleted"


TOOLS = [mail_list, mail_read, mail_search, mail_send, mail_reply, mail_forward, mail_move, mail_delete]
