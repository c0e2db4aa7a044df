r"""The second law of a kernel: its density is invariant, $\pi K = \pi$.

With $x \sim s$, $w = \pi/s$, $y$ one step from $x$ and $m = \min\{1, c/w\}$, for every $g \ge 0$

$$E_s[w(x)\,m(x)\,g(y)\,m(y)] \le \int \pi\,g\,m = E_s[w(x)\,m(x)\,g(x)],$$

with equality where no weight is cut: what arrives in $g$ cannot exceed what belongs there, for
*every* start. Both sides lie between 0 and $c$ for $g \le 1$, so a bet on "too much" is exact at
any tail (see `betting`). Where too little arrives, too much arrives elsewhere: which of $g$ and
$1 - g$ to bet on is settled on the pilot runs.
"""

import numpy as np

from aide.checking.betting import log_average, log_wealths, wealth_p_value
from aide.checking.kernel.functions import Functions, View
from aide.checking.kernel.laws import LawTest, law_test_of, pick


class InvarianceJudge:
    """Picks functions and a linear combination on the pilot; then adds up fresh runs."""

    def __init__(self, functions: Functions, pilot: View):
        gain, loss = _sides(pilot, pilot.before[:, 1:], pilot.after[:, 1:])
        picked, combination = pick(gain - loss)
        names = functions.names[1:]  # the first is constant
        self.names = [f"mean of {names[k]}" for k in picked]
        self.names.append("the best combination of all functions")
        self.slopes = np.zeros((len(names), picked.size + 1))
        self.offsets = np.zeros(picked.size + 1)
        signs = np.sign((gain - loss)[:, picked].mean(axis=0))
        self.slopes[picked, np.arange(picked.size)] = np.where(signs < 0, -1.0, 1.0)
        self.offsets[:-1] = signs < 0
        seen = np.concatenate([pilot.before[:, 1:], pilot.after[:, 1:]]) @ combination
        low, width = seen.min(), max(float(np.ptp(seen)), 1e-300)
        self.slopes[:, -1], self.offsets[-1] = combination / width, -low / width
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, view: View) -> None:
        """Look at fresh runs."""
        ends = (view.before[:, 1:], view.after[:, 1:])
        before, after = (np.clip(end @ self.slopes + self.offsets, 0.0, 1.0) for end in ends)
        self.parts.append(_sides(view, before, after))

    def verdict(self) -> LawTest:
        """The average wealth of all bets."""
        gain, loss = (np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        with np.errstate(divide="ignore"):
            p_value = wealth_p_value(log_average(log_wealths(np.log(gain), loss)))
        terms = gain - loss
        size = np.sqrt((terms**2).sum(axis=0))
        z = terms.sum(axis=0) / np.where(size > 0, size, np.inf)
        return law_test_of("invariance", p_value, z, self.names)


def _sides(view: View, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What arrives in each function and what belongs there, in units of $c$."""
    weight = np.exp(np.minimum(view.log_weight, 0.0))[:, None]
    damped = np.exp(np.minimum(-view.log_weight_after, 0.0))[:, None]
    return weight * after * damped, weight * before
