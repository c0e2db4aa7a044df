"""Two sets of draws, no densities: how far apart are they at least?"""

from aide._core.numerics import special
from aide._core.types import Value
from aide.algorithms.reference import ReferenceDraws
from aide.comparing.draw_functions import compare_functions
from aide.comparing.draw_sets import DrawSet, check_comparable, make_draw_set
from aide.comparing.draws_difference import DrawsDifference
from aide.estimation.interval import check_level
from aide.estimation.sandwich.lower_bound import lower_terms
from aide.estimation.sandwich.recipe import Recipe, phases_of

POWER = 0.8
"""Chance to find a shift of size `DrawsDifference.smallest`."""


def compare_draws(
    a: Value | ReferenceDraws,
    b: Value | ReferenceDraws,
    *,
    names: tuple[str, str] = ("a", "b"),
    has_chains: bool | None = None,
    level: float = 0.95,
) -> DrawsDifference:
    r"""A lower limit on $KL(a \| b) + KL(b \| a)$ from draws alone, and what gives it away.

    A classifier between the two sets gives the limit: it is trained on some parts of the chains and
    judged on others, so that the limit holds whatever it has learnt. Locations, spreads and
    dependences are tested besides, for all of them together. Autocorrelation is accounted for in
    both; draws of slow chains are thinned to twice their effective size. Nothing here is random:
    the same draws give the same result.

    Args:
        a: One set: an array of shape (draw,), (draw, coordinate) or (chain, draw, coordinate), a
            pytree (dict) of arrays with a leading axis (draw,), or `aide.ReferenceDraws`.
        b: The other, with the same coordinates; the numbers of draws may differ.
        names: What they are called.
        has_chains: Whether the leading axes are (chain, draw); unless stated they are for one
            array with three axes, and not otherwise.
        level: Chance, at least, that everything the result claims holds.
    """
    check_level(level)
    first, second = (
        make_draw_set(name, draws, has_chains) for name, draws in zip(names, (a, b), strict=True)
    )
    check_comparable(first, second)
    each = 0.5 + level / 2
    recipe = Recipe(
        (first.values, second.values), None, None, phases_of(first.sequences, second.sequences)
    )
    effective = first.effective, second.effective
    found = lower_terms([recipe], each, (first.sequences, second.sequences), effective)
    forward, backward = found.direction_limits(each) or (0.0, 0.0)
    tests = compare_functions(first, second)
    return DrawsDifference(
        first,
        second,
        max(found.limit(each), 0.0),
        max(forward, 0.0),
        max(backward, 0.0),
        tests,
        level,
        _smallest_shift(first, second, len(tests), level),
        found.saturated,
    )


def _smallest_shift(a: DrawSet, b: DrawSet, num_tests: int, level: float) -> float:
    r"""$\delta^2$: a shift by $\delta$ standard deviations, so many nats for a Gaussian."""
    needed = -special.ndtri((1 - level) / 4 / max(num_tests, 1)) + special.ndtri(POWER)
    return float(needed**2 * (1 / a.effective + 1 / b.effective))
