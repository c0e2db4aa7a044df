r"""Every law on every algorithm of the library, at 1, 2 and 3 particles.

1. $E_r[\xi] = Z q(x)$: integrated against a reference; at two points where $q$ has a formula.
2. Swap symmetry, binned and in one number.
3. $l = 0$ where the output determines the trace.
4. AIDE against itself is at least 0, and 0 to rounding where law 3 holds.
5. $E_{simulate}[h(x)/\xi] = 1/Z$.

One test per algorithm, because compiling it is what takes time.
"""

import numpy as np
import pytest
from support import Z_MAX, laws
from support.registry import REGISTRY

import aide

NAMES = [
    pytest.param(name, marks=pytest.mark.full) if entry.full else name
    for name, entry in REGISTRY.items()
]
ROUNDING = 1e-10
"""Two programs may round differently."""
ENOUGH = 200.0
"""Law 2 must have something to look at: the variance of the number of positive signs."""


@pytest.mark.parametrize("name", NAMES)
def test_laws(name):
    entry = REGISTRY[name]
    claim = entry.algorithm.log_z
    assert claim is None or claim == entry.log_z
    draws = laws.law_draws(entry)
    scores = {
        "1, mass": laws.mass_z(draws, entry.log_z),
        "1, probe": laws.probe_z(draws, entry.log_z),
        "5": laws.density_z(draws, entry.log_h, entry.log_z),
    }
    if entry.log_q is not None:
        scores["1, left"], scores["1, right"] = (laws.point_z(entry, x) for x in (-0.7, 0.9))
    log_ratio = laws.log_ratios(draws)
    if entry.determined:
        assert np.abs(log_ratio).max() < ROUNDING
        assert abs(laws.self_estimate(entry).value) < ROUNDING
    else:
        assert laws.swap_information(log_ratio) > ENOUGH
        scores["2, binned"] = laws.swap_z(log_ratio)
        scores["2, exchange"] = laws.exchange_z(log_ratio)
        scores["4"] = laws.self_z(entry)
    broken = {law: z for law, z in scores.items() if not abs(z) < Z_MAX}
    assert not broken


def test_every_public_algorithm_is_registered():
    registered = {type(entry.algorithm) for entry in REGISTRY.values()}
    # Reference draws are a fixed list, whose laws are those of whoever made them.
    left_out = {aide.InferenceAlgorithm, aide.ReferenceDraws}
    public = {vars(aide)[name] for name in aide.__all__} - left_out
    for item in public:
        if isinstance(item, type) and hasattr(item, "regenerate"):
            assert item in registered
