r"""The two laws of a kernel as terms with mean zero, and their p-values on fresh runs.

With $x \sim s$, $w = \pi(x)/s(x)$, $y$ one step of $K$ and $z$ one step of $K^*$ from $x$:

- reversal: $\pi(dx) K(x, dy) = \pi(dy) K^*(y, dx)$, so $E_s[w\{H(x, y) - H(z, x)\}] = 0$ for every
  bounded $H$ (for a reversible kernel $z = y$);
- invariance: $E_s[w\{f(y) - f(x)\}] = 0$ for every bounded $f$.

$H$ runs over $f(x) g(y)$ and odd functions of the jump. On pilot runs the columns with the largest
deviations and the best linear combination of all are picked; fresh runs judge these few.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aide.checking.kernel_functions import Functions, View

NUM_PICKED = 8
RIDGE = 0.05
Terms = Callable[[View], np.ndarray]


@dataclass(frozen=True)
class LawTest:
    """One law, tested.

    Attributes:
        law: `reversible`, `reversal` or `invariance`.
        p_value: Chance of so large a deviation if the law holds, over all functions together;
            `None` if the start does not allow a judgement.
        z: The largest deviation in standard errors.
        function: Where it was seen.
    """

    law: str
    p_value: float | None
    z: float
    function: str


def reversal_terms(functions: Functions, both_ways: bool) -> tuple[Terms, list[str]]:
    """Terms of the first law, one column per $H$, and their names.

    Of a reversible kernel (`both_ways`) exchanging $f$ and $g$ changes the sign alone.
    """
    names, size = functions.names, len(functions.names)

    def terms(view: View) -> np.ndarray:
        there = view.before[:, first] * view.after[:, second]
        pairs = there - view.reverse[:, first] * view.before[:, second]
        jumps = view.jumps + view.jumps_reverse  # odd: H(z, x) = -H(x, z)
        return np.concatenate([pairs, jumps], axis=1) * view.weights

    first, second = np.triu_indices(size, 1) if both_ways else np.indices((size, size))
    first, second = first.ravel(), second.ravel()
    labels = [f"{names[i]} before and {names[j]} after" for i, j in zip(first, second, strict=True)]
    return terms, labels + functions.jump_names


def invariance_terms(functions: Functions) -> tuple[Terms, list[str]]:
    """Terms of the second law, one column per $f$, and their names."""

    def terms(view: View) -> np.ndarray:
        return (view.after - view.before) * view.weights

    return terms, [f"mean of {name}" for name in functions.names]


class Judge:
    """Picks columns and a linear combination on the pilot; then adds up fresh runs."""

    def __init__(self, law: str, terms: Terms, names: list[str], pilot: View):
        self.law, self.terms = law, terms
        table = terms(pilot)
        size = np.sqrt((table**2).mean(axis=0))
        alive = np.flatnonzero(size > 1e-12 * size.max(initial=0.0))
        scaled = table[:, alive] / size[alive]
        mean = scaled.mean(axis=0)
        picked = np.argsort(-np.abs(mean), kind="stable")[:NUM_PICKED]
        covariance = scaled.T @ scaled / len(scaled)
        combination = np.linalg.solve(covariance + RIDGE * np.eye(alive.size), mean)
        self.coefficients = np.zeros((len(names), len(picked) + 1 if alive.size else 0))
        for column, k in enumerate(picked):
            self.coefficients[alive[k], column] = 1.0
        if alive.size:
            self.coefficients[alive, -1] = combination / size[alive]
        self.names = [names[alive[k]] for k in picked] + ["the best combination of all functions"]
        self.parts: list[np.ndarray] = []

    def add(self, view: View) -> None:
        """Look at fresh runs."""
        self.parts.append(self.terms(view) @ self.coefficients)

    def verdict(self, can_judge: bool = True) -> LawTest:
        r"""The self-normalised $z = \sum T/\sqrt{\sum T^2}$ of every column, by Bonferroni.

        The tails are corrected for skewness (see `aide.checking.evidence`).
        """
        from aide.checking.evidence import tail_p_value

        table = np.concatenate(self.parts)
        size = np.sqrt((table**2).sum(axis=0))
        if not size.any():
            return LawTest(self.law, 1.0 if can_judge else None, 0.0, "nothing: no state changed")
        z = table.sum(axis=0) / np.where(size > 0, size, 1.0)
        skewness = (table**3).mean(axis=0) * len(table) ** 1.5 / np.where(size > 0, size, 1.0) ** 3
        p_values = [tail_p_value(abs(a), b, len(table)) for a, b in zip(z, skewness, strict=True)]
        p_value = min(1.0, min(p_values) * z.size)
        # One function says more to a person than a combination, if it sees nearly as much.
        single = int(np.argmax(np.abs(z[:-1])))
        worst = single if abs(z[single]) > 0.5 * abs(z[-1]) else z.size - 1
        return LawTest(self.law, p_value if can_judge else None, float(z[worst]), self.names[worst])
