r"""NUTS the plain way: a recursion as in the papers, every coin followed both ways (NumPy).

An orbit is a function from an integer to (log weight, momentum). Nothing is shared with the
library: trees are built point by point outwards from where they are, and chances are multiplied
along every path of coins.
"""

from typing import NamedTuple

import numpy as np


class Tree(NamedTuple):
    """A piece of the orbit, from `low` to `high`: chances of its points, and whether it stops."""

    low: int
    high: int
    total: np.ndarray
    weight: float
    chances: dict
    stops: bool
    range: tuple


def turns(criterion, orbit, left, right):
    """Does the union of two neighbouring pieces turn back?"""
    momentum = lambda i: np.asarray(orbit(i)[1], float)
    ends = momentum(left.low), momentum(right.high)
    whole = left.total + right.total
    if criterion == "numpyro":
        rho = whole - (ends[0] + ends[1]) / 2
        return bool(ends[0] @ rho <= 0 or ends[1] @ rho <= 0)
    inner = momentum(left.high), momentum(right.low)
    checks = [
        (ends[0], ends[1], whole),
        (ends[0], inner[1], left.total + inner[1]),
        (inner[0], ends[1], right.total + inner[0]),
    ]
    return any(a @ rho <= 0 or b @ rho <= 0 for a, b, rho in checks)


def build(criterion, limit, orbit, start, depth, sign):
    """A tree of one depth that begins at `start` and grows outwards; multinomial within."""
    if depth == 0:
        log_weight, momentum = orbit(start)
        weight, stops = np.exp(log_weight), not np.isfinite(log_weight)
        span = (log_weight, log_weight)
        return Tree(start, start, np.asarray(momentum, float), weight, {start: 1.0}, stops, span)
    near = build(criterion, limit, orbit, start, depth - 1, sign)
    if near.stops:
        return near
    far = build(criterion, limit, orbit, start + sign * 2 ** (depth - 1), depth - 1, sign)
    if far.stops:
        return far
    left, right = (near, far) if sign > 0 else (far, near)
    weight = near.weight + far.weight
    chances = {i: p * near.weight / weight for i, p in near.chances.items()}
    chances |= {i: p * far.weight / weight for i, p in far.chances.items()}
    return join(criterion, limit, orbit, left, right, weight, chances)


def join(criterion, limit, orbit, left, right, weight, chances):
    span = (min(left.range[0], right.range[0]), max(left.range[1], right.range[1]))
    stops = turns(criterion, orbit, left, right) or span[1] - span[0] > limit
    total = left.total + right.total
    return Tree(left.low, right.high, total, weight, chances, stops, span)


def chances_from(criterion, limit, max_depth, orbit):
    """Chances of where a step from point 0 of the orbit goes, and of the number of doublings tried.

    A doubling that fails counts among those tried.
    """
    found, tried = {}, np.zeros(max_depth + 1)

    def note(tree, chance, doublings):
        tried[doublings] += chance
        for i, p in tree.chances.items():
            found[i] = found.get(i, 0.0) + chance * p

    def grow(tree, depth, chance):
        if depth == max_depth:
            note(tree, chance, depth)
            return
        for sign in (-1, 1):
            start = tree.high + 1 if sign > 0 else tree.low - 1
            new = build(criterion, limit, orbit, start, depth, sign)
            ends = [tree.range[0], tree.range[1], *new.range]
            if new.stops or np.ptp(ends) > limit:
                note(tree, chance / 2, depth + 1)
                continue
            move = min(1.0, new.weight / tree.weight)
            chances = {i: p * (1 - move) for i, p in tree.chances.items()}
            chances |= {i: p * move for i, p in new.chances.items()}
            left, right = (tree, new) if sign > 0 else (new, tree)
            weight = tree.weight + new.weight
            merged = join(criterion, limit, orbit, left, right, weight, chances)
            if merged.stops:
                note(merged, chance / 2, depth + 1)
            else:
                grow(merged, depth + 1, chance / 2)

    first = build(criterion, limit, orbit, 0, 0, 1)
    if first.stops:
        return {0: 1.0}, tried
    grow(first, 0, 1.0)
    return found, tried
