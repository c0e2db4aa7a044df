r"""Trajectories on a Gaussian, where leapfrog is linear."""

import jax
import numpy as np

from aide._core.random import standard_normal
from aide.gold_standards.pilots.population import Path
from aide.gold_standards.pilots.walking import LONGEST, Choice, Trial, Tried, choose, follow
from aide.kernels.coordinates import Metric
from aide.problems.distributions import Normal


def test_a_trajectory_is_leapfrog(x64):
    r"""$N(0, s^2)$ in units of $s$: each step is one matrix, and the energy error follows."""
    scale, size, key = 3.0, 0.4, jax.random.key(1)
    start = Normal(np.zeros(1), scale)
    trial = Trial(Path(start, start.log_prob).at(0.3), Metric(np.array([scale])))
    found, met = follow(trial, key, 5, np.array([1.8]), size)
    momentum = standard_normal(jax.random.fold_in(key, 5), (1,), float)[0]
    half = np.array([[1.0, 0.0], [-size / 2, 1.0]])
    step = half @ np.array([[1.0, size], [0.0, 1.0]]) @ half
    places = [np.array([1.8 / scale, momentum])]
    for _ in range(LONGEST):
        places.append(step @ places[-1])
    places = np.array(places)
    energy = 0.5 * np.sum(places**2, axis=1)
    np.testing.assert_allclose(found.jump, (places[1:, 0] - places[0, 0]) ** 2, rtol=1e-9)
    gain = np.minimum(energy[0] - energy[1:], 0.0)
    np.testing.assert_allclose(found.acceptance, np.exp(gain), rtol=1e-9)
    np.testing.assert_allclose(found.log_ratio, 0.0, atol=1e-12)
    np.testing.assert_array_equal(met.near, found.jump <= 1.0)
    assert met.seen.all()
    assert not met.lost.any()


def orbits(sizes, acceptance, num=20):
    r"""Exact dynamics: after an angle $\theta$ coordinates correlate by $\cos\theta$."""
    group = np.repeat(np.arange(len(sizes)), num)
    ratios = np.tile([1.0, -1.0], len(group) // 2)
    angle = sizes[group][:, None] * np.arange(1, LONGEST + 1)
    change = np.sqrt(2 * np.sin(angle) ** 2)  # h, like the energy, correlates by its square
    accepted = np.broadcast_to(acceptance[group][:, None], angle.shape)
    return Tried(accepted, 2 * (1 - np.cos(angle)), ratios[:, None] + change), group, ratios


def test_the_cheapest_way_to_forget_is_chosen():
    """A quarter of an orbit in two steps; not three, although they jump farther per gradient."""
    sizes = np.array([0.1, np.pi / 8, np.pi / 4, 2.0])
    tried, group, ratios = orbits(sizes, np.array([1.0, 1.0, 1.0, 0.4]))
    found = choose(tried, sizes, group, ratios)
    assert found == Choice(np.pi / 4, 2)
    jump = 2 * (1 - np.cos(np.pi / 4 * np.arange(1, 5))) / np.arange(2, 6)
    assert np.argmax(jump) == 2  # control: another criterion would take three
    tried, group, ratios = orbits(sizes, np.array([1.0, 1.0, 0.2, 0.4]))
    assert choose(tried, sizes, group, ratios) == Choice(np.pi / 8, 4)


def test_where_nothing_is_accepted_the_smallest_step_is_left():
    sizes = np.array([0.5, 0.1])
    tried, group, ratios = orbits(sizes, np.zeros(2))
    assert choose(tried, sizes, group, ratios) == Choice(0.1, 1)
