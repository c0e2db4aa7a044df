r"""Every law on every algorithm of the library, at 1, 2 and 3 particles.

1. $E_r[\xi] = Z q(x)$: integrated against a reference; at two points where $q$ has a formula.
2. Swap symmetry, binned and in one number.
3. $l = 0$ where the output determines the trace.
4. AIDE against itself is at least 0, and 0 to rounding where law 3 holds.
5. $E_{simulate}[h(x)/\xi] = 1/Z$.

The quick suite looks at all of them with few runs, the full suite with five times as many. The same
runs show that keyed results stay what they were: one test per algorithm, because compiling it is
what takes time.
"""

import numpy as np
import pytest
from support import Z_MAX, keyed, laws
from support.registry import REGISTRY

import aide

ALL = 1_000_000
"""No limit: as many runs as the registry states."""
ROUNDING = 1e-10
"""Two programs may round differently."""
ENOUGH = 200.0
"""Law 2 must have something to look at: the variance of the number of positive signs."""


@pytest.mark.parametrize("most", [laws.FEW, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", REGISTRY)
def test_laws(name, most):
    entry = REGISTRY[name]
    entry = entry._replace(num_runs=min(entry.num_runs, most))
    claim = entry.algorithm.log_z
    assert claim is None or claim == entry.log_z
    draws = laws.law_draws(entry, keyed.SEED, num_meta_target=keyed.NUM_META)
    log_ratio = laws.log_ratios(draws)
    if entry.determined:
        assert np.abs(log_ratio).max() < ROUNDING
    else:
        assert laws.swap_information(log_ratio) > ENOUGH
    broken = {law: z for law, z in laws.all_scores(entry, draws).items() if not abs(z) < Z_MAX}
    assert not broken
    keyed.check_unchanged(name, draws)


def test_every_public_algorithm_is_registered():
    registered = {type(entry.algorithm) for entry in REGISTRY.values()}
    # Reference draws are a fixed list, whose laws are those of whoever made them.
    left_out = {aide.InferenceAlgorithm, aide.ReferenceDraws}
    public = {vars(aide)[name] for name in aide.__all__} - left_out
    for item in public:
        if isinstance(item, type) and hasattr(item, "regenerate"):
            assert item in registered
