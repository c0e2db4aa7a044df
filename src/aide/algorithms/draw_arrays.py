r"""Arrays of stored draws: their axes, their errors, all numbers as columns, and their order.

Standard errors of stored draws depend on the order in which a chain visited them. Two kinds of
lists have lost this order. *Chains that take turns*: step 1 of every chain, then step 2 of every
chain, as in emcee's flat chains; neighbours are independent, and draws $W$ apart are not. *Copies*:
rows that were resampled with replacement, or drawn from a list; equal draws lie far apart. Both are
brought into an order in which autocorrelation shows the dependence.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.chains import autocovariances
from aide._core.numerics import flat_rows, special
from aide._core.types import Value


def as_chains(draws: Value, has_chains: bool) -> tuple[Value, tuple[int, int]]:
    """Arrays with leading axes (chain, draw), reals in double precision; and the axes' lengths.

    Raises:
        ValueError: If arrays lack these axes, differ in them, or hold an entry that is not finite.
    """
    axes = ("chain", "draw") if has_chains else ("draw",)
    words = f"the leading {'axes' if has_chains else 'axis'} ({', '.join(axes)})"
    named = jax.tree_util.tree_leaves_with_path(draws)
    if not named:
        raise ValueError("draws must hold at least one array, got none.")
    shapes: dict[str, tuple[int, ...]] = {}
    for path, leaf in named:
        array, name = np.asarray(leaf), f"draws{jax.tree_util.keystr(path)}"
        if np.ma.is_masked(leaf):
            raise ValueError(
                f"{name} has {int(np.ma.getmaskarray(leaf).sum())} masked entries, which would "
                "count as numbers: leave out the draws that have one."
            )
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}.")
        if array.ndim < len(axes) or 0 in array.shape[: len(axes)]:
            raise ValueError(
                f"{name} must have {words}, each at least 1, got shape {array.shape}. "
                "has_chains says whether the first axis numbers chains."
            )
        shapes[name] = array.shape[: len(axes)]
        _check_finite(name, array, axes)
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"all arrays of draws must agree in {words}, got {found}.")
    arranged = jax.tree.map(lambda leaf: _with_chain_axis(leaf, has_chains), draws)
    for (name, _), leaf in zip(shapes.items(), jax.tree.leaves(arranged), strict=True):
        if leaf.dtype.kind == "f":
            _check_range(name, leaf)
    num_chains, num_draws = jax.tree.leaves(arranged)[0].shape[:2]
    return arranged, (num_chains, num_draws)


def flat_draws(draws: Value) -> Value:
    """Arrays with one leading axis, one chain after another."""
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), draws)


def columns_of(draws: Value) -> np.ndarray:
    """All numbers of every draw: shape (chain, draw, coordinate), as reals."""
    return flat_rows(draws, 2)


def column_names(draws: Value) -> list[str]:
    """A name for every column of `columns_of`: `theta[1]`, or `x[1]` for a bare array."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(draws):
        parts = [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
        name, shape = ".".join(parts) or "x", np.shape(leaf)[2:]
        places = [",".join(map(str, place)) for place in np.ndindex(*shape)]
        found += [f"{name}[{place}]" if place else name for place in places]
    return found


def still_words(draws: Value) -> str:
    """Say which real coordinate has one value in all of many draws; nothing if none has."""
    leaves = jax.tree.leaves(draws)
    kinds = [np.full(int(np.prod(leaf.shape[2:])), leaf.dtype.kind) for leaf in leaves]
    columns = columns_of(draws).reshape(-1, sum(kind.size for kind in kinds))
    still = np.flatnonzero((np.concatenate(kinds) == "f") & (np.ptp(columns, axis=0) == 0))
    if len(columns) < 2 or not still.size:
        return ""
    names = column_names(draws)
    more = f" and {still.size - 1} more" if still.size > 1 else ""
    return (
        f"{names[still[0]]}{more} never varies, so that divergences from an algorithm in which it "
        "does are infinite, whatever is shown"
    )


def _with_chain_axis(leaf: Any, has_chains: bool) -> np.ndarray:
    array = np.array(leaf)
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    return array if has_chains else array[None]


EXTREME = 1e150
"""Size above which squares of numbers overflow; those of its inverse vanish."""


def _check_range(name: str, array: np.ndarray) -> None:
    """Raise where variances would overflow, or vanish although the numbers differ."""
    columns = array.astype(np.float64).reshape(-1, np.prod(array.shape[2:], dtype=int))
    size, spread = np.abs(columns).max(initial=0.0), np.ptp(columns, axis=0)
    if size > EXTREME or ((spread > 0) & (spread < 1 / EXTREME)).any():
        found = size if size > EXTREME else spread[spread > 0].min()
        raise ValueError(
            f"{name} has numbers that differ by or are of the size of {found:.2g}, whose squares "
            "double precision cannot hold: rescale the variable."
        )


def _check_finite(name: str, array: np.ndarray, axes: tuple[str, ...]) -> None:
    if array.dtype.kind != "f":
        return
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = ", ".join(f"{axis} {i}" for axis, i in zip(axes, wrong[0], strict=False))
        raise ValueError(
            f"{name} has {len(wrong)} entries that are not finite numbers, the first "
            f"({array[tuple(wrong[0])]}) at {place}. Leave out chains that failed; draws are never "
            "repaired."
        )


FALSE_ALARM = 1e-6
"""Probability that independent draws are taken for chains that take turns: a choice."""
FEWEST_PAIRS = 20
"""Least number of pairs of draws from which the correlation at a distance is estimated."""
MOST_COLUMNS = 100
"""Largest number of coordinates that are tested, evenly chosen."""
FEWEST_DRAWS = 4
"""Least number of draws per chain for R-hat, which halves the chain."""
LEAST_LOSS = 0.95
"""Copies are put together if blocks of them are worth less than this share of their number."""
MOST_EQUAL = 0.75
"""Largest share of draws with one value: above, a coordinate has too few others to correlate."""
DIGITS = 6
"""Numbers with at most this many digits count as rounded, or as atoms, and not as copies."""


class Order(NamedTuple):
    """A new order of a list of draws.

    Attributes:
        places: Chain times length plus position of each draw that is kept, in the new order.
        num_chains: Number of chains in the new order.
        words: A description of the order that was recognised.
    """

    places: np.ndarray
    num_chains: int
    words: str


def in_order(draws: Value) -> tuple[Value, str]:
    """Draws with leading axes (chain, draw) in an order that shows their dependence.

    The words say which order was recognised; they are empty if the order was right.

    Raises:
        ValueError: If the draws show that the axes are (draw, chain).
    """
    found = []
    for recognise in (_taking_turns, _copies):
        order = recognise(draws, _some_columns(draws))
        if order is not None:
            draws = jax.tree.map(lambda leaf, order=order: _arranged(leaf, order), draws)
            found.append(order.words)
    return draws, "; ".join(found)


def check_axes(draws: Value) -> None:
    """Raise if the draws show that the leading axes are (draw, chain) instead of (chain, draw).

    The signs are: chains too short for any statistic, or draws that depend on their neighbours
    along the first axis at least twice as strongly as along the second.
    """
    columns = _some_columns(draws)
    num_chains, num = columns.shape[:2]
    if num_chains <= num:
        return
    is_short = num < FEWEST_DRAWS and num_chains >= 10 * num
    least = -special.ndtri(FALSE_ALARM / max(columns.shape[2], 1))
    for column in np.moveaxis(columns, 2, 0):
        if is_short:
            break
        if num > 1 and np.ptp(column) > 0:
            z = normal_scores(column)
            along, across = np.mean(z[1:] * z[:-1]), np.mean(z[:, 1:] * z[:, :-1])
            pairs = (num_chains - 1) * num
            is_short = bool(along * np.sqrt(pairs) > least and along > 2 * abs(across))
    if is_short:
        raise ValueError(
            f"draws must have the leading axes (chain, draw), got {num_chains:,} chains of {num:,} "
            f"draws each, which look like {num:,} chains of {num_chains:,} draws: swap the axes, "
            "np.swapaxes(draws, 0, 1). Independent draws have one such axis: has_chains=False."
        )


def _some_columns(draws: Value) -> np.ndarray:
    columns = columns_of(draws)
    if columns.shape[2] <= MOST_COLUMNS:
        return columns
    chosen = np.linspace(0, columns.shape[2] - 1, MOST_COLUMNS).round().astype(int)
    return columns[:, :, chosen]


def _arranged(leaf: np.ndarray, order: Order) -> np.ndarray:
    flat = leaf.reshape(-1, *leaf.shape[2:])[order.places]
    return flat.reshape(order.num_chains, -1, *leaf.shape[2:])


def period_of(columns: np.ndarray) -> int:
    r"""The number of chains that take turns in every row of `columns`; 1 if none do.

    The lag at which normal scores of ranks are most correlated, if three conditions hold: the lag
    is above 1, the correlation is at least twice that at every smaller lag, and chance does not
    explain it. For independent draws $r_k\sqrt{n - k}$ is about standard normal.
    """
    num_chains, num, size = columns.shape
    lags = num - FEWEST_PAIRS // num_chains
    if lags < 3:
        return 1
    roots = np.sqrt(num_chains * (num - np.arange(lags)))
    least, found = -special.ndtri(FALSE_ALARM / (lags * max(size, 1))), 1
    for column in np.moveaxis(columns, 2, 0):
        if np.unique(column, return_counts=True)[1].max() > MOST_EQUAL * column.size:
            continue
        gamma = autocovariances(list(normal_scores(column)))[:lags]
        correlations = gamma / gamma[0] * num_chains * num / roots**2
        scores = correlations * roots
        lag = int(np.argmax(scores[1:])) + 1
        before = np.abs(correlations[1:lag]).max(initial=0.0)
        if scores[lag] > least and correlations[lag] > 2 * before:
            found, least = lag, scores[lag]
    return found


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks of all values."""
    from scipy import stats

    ranks = stats.rankdata(values.ravel()).reshape(values.shape)
    return special.ndtri((ranks - 0.5) / values.size)


def _taking_turns(draws: Value, columns: np.ndarray) -> Order | None:
    num_chains, num, _ = columns.shape
    period = period_of(columns)
    if period == 1:
        return None
    kept = num // period * period
    places = np.arange(num_chains * num).reshape(num_chains, num)[:, :kept]
    turns = places.reshape(num_chains, -1, period).swapaxes(1, 2)
    left = f" (the last {num - kept} are left out)" if kept < num else ""
    words = (
        f"draws {period} apart depend on each other and neighbours do not: taken as {period} "
        f"chains that take turns, the order of emcee's flat chains{left}"
    )
    return Order(turns.ravel(), num_chains * period, words)


def _copies(draws: Value, columns: np.ndarray) -> Order | None:
    """An order with equal draws side by side, if the draws are copies that lie apart."""
    if not any(leaf.dtype.kind == "f" for leaf in jax.tree.leaves(draws)):
        return None
    flat = columns.reshape(-1, columns.shape[2])
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    which = which.ravel()
    starts = np.ones(columns.shape[:2], bool)
    numbers = which.reshape(columns.shape[:2])
    starts[:, 1:] = numbers[:, 1:] != numbers[:, :-1]  # a chain that stays makes one block
    blocks = np.bincount(numbers[starts], minlength=first.size)
    worth = blocks.sum() ** 2 / np.sum(blocks.astype(float) ** 2)
    again = blocks > 1
    again[again] = _has_many_digits(flat[first[again]])
    if again.sum() < 2 or worth > LEAST_LOSS * blocks.sum():
        return None
    words = (
        f"the {len(flat):,} draws are copies of {first.size:,} different ones: copies are taken "
        f"together, and worth about {worth:.0f} draws"
    )
    return Order(np.argsort(first[which], kind="stable"), 1, words)


def _has_many_digits(rows: np.ndarray) -> np.ndarray:
    """Whether a row has a number of many digits, unlike 0 and rounded numbers."""
    size = np.abs(rows)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    scaled = size * 10.0 ** (DIGITS - 1 - exponent)
    return np.any(np.abs(scaled - np.round(scaled)) > 0.01, axis=1)
