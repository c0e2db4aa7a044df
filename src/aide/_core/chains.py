"""Where stored draws lie: chains, positions, and the order in which runs take them."""

from functools import cache
from typing import NamedTuple

import numpy as np


class Chains(NamedTuple):
    """The facts about a fixed list of draws that an estimate needs.

    Attributes:
        num_chains: Independent chains.
        num_draws: Draws per chain.
        effective: Smallest effective sample size of all coordinates; NaN where none is defined.
        rhat: Largest split R-hat of all coordinates; NaN where none is defined.
    """

    num_chains: int
    num_draws: int
    effective: float = np.nan
    rhat: float = np.nan

    @property
    def size(self) -> int:
        """All draws."""
        return self.num_chains * self.num_draws

    def places(self, runs: np.ndarray) -> np.ndarray:
        """Chain times `num_draws` plus position of each run: a permutation of all places.

        Law: the first N runs are spread evenly over all chains, and within each chain, for every
        N: runs take turns between the chains, and positions follow van der Corput's sequence.
        """
        runs = np.asarray(runs, np.int64)
        chain, turn = runs % self.num_chains, runs // self.num_chains
        return chain * self.num_draws + _spread_order(self.num_draws)[turn]

    def sequences(self, runs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rows of these runs, chain by chain, in the order in which the chain visited them."""
        places = self.places(runs)
        order = np.argsort(places, kind="stable")
        chain = places[order] // self.num_draws
        parts = (order[chain == number] for number in range(self.num_chains))
        return tuple(part for part in parts if part.size)


@cache
def _spread_order(num: int) -> np.ndarray:
    """0 to num - 1 such that every beginning is evenly spread: reversed bits, as far as they go."""
    bits = max(num - 1, 0).bit_length()
    numbers = np.arange(2**bits, dtype=np.int64)
    reverse = np.zeros_like(numbers)
    for bit in range(bits):
        reverse |= ((numbers >> bit) & 1) << (bits - 1 - bit)
    order = reverse[reverse < num]
    order.flags.writeable = False
    return order
