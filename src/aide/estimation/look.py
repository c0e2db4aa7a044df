"""Several looks at runs that grow, of which every limit holds whenever one stops."""

from typing import NamedTuple


class Look(NamedTuple):
    r"""One of the looks at an estimate whose runs, or meta-runs, are added to.

    Law: if look $k$ gives its limits at the level $1 - s_k(1 - level)$ and $\sum_k s_k \le 1$, then
    with probability `level` they hold at *all* looks (Bonferroni), hence at the one where somebody
    stops, for whatever reason. Sizes of later looks must not depend on terms of earlier ones.

    Attributes:
        share: $s_k$.
        words: Why this was the last look; empty for an estimate that was never meant to grow.
    """

    share: float = 1.0
    words: str = ""

    def level(self, level: float) -> float:
        """The level that this look needs."""
        return 1.0 - (1.0 - level) * self.share


def share_of(number: int) -> float:
    r"""$s_k = 1/(k(k+1))$ of look $k = 1, 2, \dots$: they add up to 1, however many there are."""
    return 1.0 / (number * (number + 1))
