"""What the user can mend, in one line."""


class BadInput(Exception):
    """Something the user passed cannot work; the message is one line."""


def quote(text: str, longest: int = 40) -> str:
    """What the user wrote, cut where it would fill the terminal."""
    return repr(text if len(text) <= longest else text[:longest] + "…")
