"""Text of others, such as names, made fit to print."""


def plain(text: str) -> str:
    r"""The text on one line without control characters: no escape sequence reaches a terminal.

    Spaces of all kinds, line ends and tabs become a space; every other character that is not
    printable (controls such as ESC, marks that change the direction of writing) becomes U+FFFD.
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)
