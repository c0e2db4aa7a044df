"""The two parts that algorithms play in an estimate."""

from enum import IntEnum


class Role(IntEnum):
    """Whose output a run produced. The number is part of the key of a run."""

    GOLD = 0
    TARGET = 1

    @property
    def word(self) -> str:
        """`gold` or `target`, as in messages and settings."""
        return self.name.lower()

    @property
    def other(self) -> "Role":
        """The other role."""
        return Role(1 - self)


GOLD, TARGET = Role.GOLD, Role.TARGET


def as_role(name: str) -> Role:
    """The role that a public argument names."""
    for role in Role:
        if name == role.word:
            return role
    raise ValueError(f"role must be 'gold' or 'target', got {name!r}.")
