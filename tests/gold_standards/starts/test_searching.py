"""Modes among pilots: counted where they are separate, and looked for by runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX
from support.posteriors import funnel

import aide
from aide.gold_standards.pilots.pilot import PilotedPath
from aide.gold_standards.pilots.population import Path, Population
from aide.gold_standards.starts import searching
from aide.gold_standards.starts.ascent import Ascent
from aide.gold_standards.starts.searching import Search
from aide.problems.distributions import Normal

PLACES, WIDTHS = np.array([[-5.0, 0.0], [4.0, 3.0], [6.0, -7.0]]), np.array([1.0, 0.3, 0.5])


def log_joint(x, places=PLACES, widths=WIDTHS):
    white = (jnp.concatenate([x["a"], x["b"]]) - jnp.asarray(places)) / widths[:, None]
    return jax.nn.logsumexp(-0.5 * jnp.sum(white**2, axis=1) - places.shape[1] * np.log(widths))


def pilots_at(points):
    states = {"a": points[:, :1], "b": points[:, 1:]}
    return PilotedPath((), Population(states, points, np.zeros(len(points))), 0)


def drawn(places, num=200):
    rng = np.random.default_rng(3)
    which = rng.integers(len(places), size=num)
    return places[which] + WIDTHS[:2].min() * rng.normal(size=(num, places.shape[1]))


LAW = Normal(np.zeros(2), 6.0)
START = aide.Tractable(
    lambda key: dict(zip("ab", jnp.split(LAW.sample(key), [1]), strict=True)),
    lambda x: LAW.log_prob(jnp.concatenate([x["a"], x["b"]])),
)
NEAR = aide.Tractable(
    lambda key: {"a": jnp.full(1, -5.0), "b": 0.1 * jax.random.normal(key, (1,))},
    lambda x: Normal(0.0, 0.1).log_prob(x["b"][0]),
)
"""A start, and draws that all lie at the first mode."""


def find(points, start, density=log_joint):
    return Search(jax.random.key(0), Path(start, density), pilots_at(points)).find(1e9)


@pytest.mark.parametrize(
    ("start", "num"), [(NEAR, 2), pytest.param(START, 3, marks=pytest.mark.full)]
)
def test_modes_of_pilots_and_of_the_start(start, num, monkeypatch):
    """Two hold pilots; climbs from draws of a wide start end at the third."""
    monkeypatch.setattr(searching, "LARGEST_BATCH", 500)
    modes = find(drawn(PLACES[:2]), start)
    order = np.argsort([mode.mean[0] for mode in modes])
    np.testing.assert_allclose([modes[n].mean for n in order], PLACES[:num], atol=1e-3)
    widths = [modes[n].factor[0, 0] for n in order]
    np.testing.assert_allclose(widths, 1.5 * WIDTHS[:num], rtol=1e-2)
    masses = [mode.log_mass for mode in modes]
    np.testing.assert_allclose(masses, np.log(2 * np.pi), atol=0.1)


@pytest.mark.full
def test_one_mode_is_one():
    assert len(find(drawn(PLACES[:1]), NEAR)) == 1


def test_too_many_modes_to_count_are_none():
    """Sixteen double wells have 65,536 modes; no two of the climbs end at the same one."""
    wells = lambda x: -jnp.sum((x**2 - 4.0) ** 2)
    points = np.random.default_rng(1).choice([-2.0, 2.0], size=(200, 16))
    pilot = PilotedPath((), Population(points, points, np.zeros(200)), 0)
    path = Path(Normal(np.zeros(16), 2.0), wells)
    assert Search(jax.random.key(0), path, pilot).find(1e9) == ()


@pytest.mark.full
def test_modes_that_do_not_hold_the_pilots_are_none():
    """A funnel's density is highest in its neck, where few of its draws are."""
    draws = np.random.default_rng(2).normal(size=(500, 10))
    draws[:, 1:] *= np.exp(1.5 * draws[:, :1])
    draws[:, 0] *= 3.0
    pilot = PilotedPath((), Population(draws, draws, np.zeros(500)), 0)
    path = Path(Normal(np.zeros(10), 5.0), funnel().log_joint)
    assert Search(jax.random.key(0), path, pilot).find(1e9) == ()


def test_climbs_arrive(x64):
    """On a Gaussian of one width at the second step; on others nearly, and never go down."""
    ascent = Ascent(Path(LAW, lambda x: LAW.log_prob(x)), np.zeros(2), np.eye(2), np.zeros(2))
    end, height = ascent.climb(jnp.array([17.0, -4.0]))
    np.testing.assert_allclose(end, 0.0, atol=1e-8)
    np.testing.assert_allclose(height, LAW.log_prob(jnp.zeros(2)))


@pytest.mark.full
def test_a_narrow_mode_counts_with_its_mass():
    """Half of the mass is in a mode of 1/243 of the volume: few particles reach it."""
    places = np.array([[-5.0] * 5, [5.0] * 5])
    widths = np.array([1.5, 0.5])
    start = Normal(np.zeros(5), 8.0)

    def narrow(x):
        white = (x - jnp.asarray(places)) / widths[:, None]
        parts = np.log(0.5) - 0.5 * jnp.sum(white**2, axis=1) - 5 * np.log(widths)
        return jax.nn.logsumexp(parts) - 2.5 * np.log(2 * np.pi)

    gold = aide.gold_standard(jax.random.key(0), narrow, start)
    assert dict(gold.record.chosen)["start"].startswith("heavy tails about 2 modes or scales")
    value, error = gold.record.log_evidence
    assert abs(value) < Z_MAX * error
    assert abs(value - np.log(0.5)) > Z_MAX * error  # what it is without the narrow one
    assert gold.verdict == "passed"


def nested(x, width=0.03):
    """Half of the mass in a peak in the middle of the other half."""
    parts = [Normal(jnp.zeros(4), scale).log_prob(x) for scale in (1.0, width)]
    return jnp.logaddexp(*parts) - np.log(2.0)


def test_a_peak_that_no_pilot_reached_counts_with_its_mass():
    """All climbs end there, and not one pilot is inside; the rest is another component."""
    points = np.random.default_rng(4).normal(size=(500, 4))
    pilot = PilotedPath((), Population(points, points, -0.5 * np.sum(points**2, axis=1)), 0)
    peak, rest = Search(jax.random.key(0), Path(Normal(np.zeros(4), 3.0), nested), pilot).find(1e9)
    assert not peak.is_rest
    assert rest.is_rest
    np.testing.assert_allclose(peak.mean, 0.0, atol=1e-4)
    np.testing.assert_allclose(np.diag(peak.factor), 1.5 * 0.03, rtol=1e-2)
    np.testing.assert_allclose([peak.log_mass, rest.log_mass], np.log(0.5), atol=0.2)
    assert searching.hidden_modes((peak, rest), points) == (peak,)
    half = np.vstack([points, 0.03 * points])
    assert searching.hidden_modes((peak, rest), half) == ()
