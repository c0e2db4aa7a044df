r"""Bounds on each direction of the divergence and on $\log Z$, from the terms of the estimate."""

from typing import NamedTuple

import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.estimation.terms import (
    Bracket,
    Mean,
    Terms,
    is_tractable,
    log_z_shift,
    mean_of,
    scores_at,
)


class DirectedBound(NamedTuple):
    r"""The mean of the terms at one algorithm's outputs: one direction of the divergence.

    Attributes:
        value: The mean, in nats. If a $Z$ is unknown, it is shifted by an unknown constant, which
            cancels in the sum of both directions.
        std_error: Its standard error.
        is_kl_bound: Whether $Z$ is known on both sides, so that `value` bounds a KL divergence.
        num_infinite: Number of infinite terms.
    """

    value: float
    std_error: float
    is_kl_bound: bool
    num_infinite: int


class LogZBounds(NamedTuple):
    r"""Estimates below and above the unknown $\log Z$ of the algorithm `of`, in expectation.

    If that algorithm's $\xi$ is $p(x, y)$, $\log Z$ is the log evidence $\log p(y)$.
    """

    of: Role
    lower: Mean
    upper: Mean


class KlBounds(NamedTuple):
    r"""Two-sided bounds on either direction $KL(q \| p)$; `None` unless $p$ is tractable."""

    gold_to_target: Bracket | None
    target_to_gold: Bracket | None


def direction_of(draws: Draws, terms: Terms, role: Role) -> DirectedBound:
    r"""$KL$ from the algorithm of `role` to the other: the mean of the terms at its outputs.

    If $Z$ is known on both sides, $\log Z_{other} - \log Z_{own}$ is added, which makes it a bound
    on the KL divergence.
    """
    shift, own = log_z_shift(draws, role), terms.at(role)
    mean, infinite = mean_of(own, draws.sequences(role)), int(np.isinf(own).sum())
    return DirectedBound(mean.value + (shift or 0.0), mean.std_error, shift is not None, infinite)


def log_z_bounds_of(draws: Draws, terms: Terms) -> LogZBounds | None:
    r"""Bounds on $\log Z$ if exactly one of the two is unknown; otherwise `None`."""
    unknown = [side.role for side in draws.sides if side.log_z is None]
    if len(unknown) != 1:
        return None
    role = unknown[0]
    known = draws.side(role.other).log_z or 0.0
    high = mean_of(terms.at(role), draws.sequences(role))
    low = mean_of(-terms.at(role.other), draws.sequences(role.other))
    lower, upper = (Mean(mean.value + known, mean.std_error) for mean in (low, high))
    return LogZBounds(role, lower, upper)


def kl_bounds_of(draws: Draws) -> KlBounds:
    r"""Where $p$ is tractable and $Z$ known on both sides, $KL(q \| p)$ from both sides.

    $KL(q \| p) = E_{x \sim q}[\log q(x) - \log p(x)]$, and at $x \sim q$ the own trace gives an
    upper, pure `regenerate` draws a lower estimate of $\log q(x)$.
    """
    return KlBounds(_bracket(draws, GOLD), _bracket(draws, TARGET))


def _bracket(draws: Draws, role: Role) -> Bracket | None:
    """Bounds on the KL divergence from the algorithm of `role` to the other one."""
    own_z, other_z = draws.side(role).log_z, draws.side(role.other).log_z
    fresh = draws.side(role).fresh()
    if own_z is None or other_z is None or fresh is None or not is_tractable(draws, role.other):
        return None
    own, other = scores_at(draws, role)
    exact = other - other_z + own_z
    rows = draws.sequences(role)
    return Bracket(mean_of(fresh - exact, rows), mean_of(own - exact, rows))
