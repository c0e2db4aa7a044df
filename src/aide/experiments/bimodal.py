"""A bimodal posterior (Figure 3): a missing mode costs nats in AIDE, little in the evidence."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.algorithm import InferenceAlgorithm
from aide.algorithms.importance import sir
from aide.algorithms.tractable import Tractable
from aide.estimation.summary import Estimate
from aide.estimation.yardsticks import compare_log_evidence
from aide.experiments.results import Row, SharedGold, new_figure, plot_curve, results_of, select
from aide.experiments.runner import Experiment, Job, Options
from aide.problems.distributions import Normal

PROPOSALS = {"broad": (0.0, 1.0), "offset": (2.0, 0.5)}
"""Mean and standard deviation of each proposal, as in the paper."""
SHOWN = {1: 0.25, 10: 0.45, 100: 0.7, 1000: 1.0}
"""Numbers of particles whose output densities are drawn, and the opacity of each curve."""
COLOURS = {"broad": "#1f6fb4", "offset": "#d6537f"}
"""Colours of the proposals."""
GOLD_PARTICLES = 1000
"""Particles of the gold standard, as in the paper."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"num_runs": 100, "particles": (1, 10, 100, 1000)},
    "default": {"num_runs": 1000, "particles": (1, 2, 4, 10, 21, 46, 100, 215, 464, 1000)},
    "paper": {"num_runs": 100, "particles": (1, 2, 4, 10, 21, 46, 100, 215, 464, 1000)},
}


class Bimodal(eqx.Module):
    """Prior N(0, 10²), likelihood 0.7 N(x; −1, 0.1²) + 0.3 N(x; 1, 0.1²)."""

    def log_joint(self, x: Float[Array, ""]) -> Array:
        """Prior times likelihood."""
        modes = jnp.stack([Normal(-1.0, 0.1).log_prob(x), Normal(1.0, 0.1).log_prob(x)])
        return Normal(0.0, 10.0).log_prob(x) + jax.nn.logsumexp(modes, b=np.array([0.7, 0.3]))

    def log_evidence(self) -> float:
        """The integral in closed form: a normal convolution per mode."""
        with jax.enable_x64(True):
            at = [Normal(mean, np.sqrt(100.01)).log_prob(0.0) for mean in (-1.0, 1.0)]
            return float(jax.nn.logsumexp(jnp.stack(at), b=np.array([0.7, 0.3])))

    def algorithm(self, proposal: str, num_particles: int) -> InferenceAlgorithm:
        """Importance sampling with resampling."""
        name = f"SIR, {proposal} proposal, {num_particles} particles"
        start = Tractable.of(Normal(*PROPOSALS[proposal]))
        return sir(start, self.log_joint, num_particles=num_particles, label=name)


def bimodal(options: Options) -> Experiment:
    """The experiment at the scale of the options, with their changes."""
    scale = SCALES[options.scale]
    num = options.num_runs or scale["num_runs"]
    particles = options.particles or scale["particles"]
    meta = max(options.meta or (1,))
    model = Bimodal()
    gold = SharedGold(model.algorithm("broad", GOLD_PARTICLES), options.seed, num)
    base = Row("bimodal", "sir", gold="approximate", num_gold=num, num_target=num)
    jobs = []
    for proposal in PROPOSALS:
        for count in particles:
            row = replace(base, proposal=proposal, num_particles=count, num_meta_target=meta)
            jobs.append(Job((row,), partial(_measure, model, gold, row), 1.0 + count / 1000))
    settings = {"num_runs": num, "particles": particles, "meta": meta}
    draw_figure = partial(_figure, model, options.seed)
    return Experiment("bimodal", jobs, draw_figure, settings)


def _measure(model: Bimodal, gold: SharedGold, row: Row) -> list[Row]:
    assert row.num_particles is not None
    target = model.algorithm(row.proposal, row.num_particles)
    draws = gold.measure(target, row.num_meta_target)
    evidence = compare_log_evidence(draws, model.log_joint).target
    cells = results_of(Estimate(draws))
    cells |= {"log_evidence": evidence.value, "log_evidence_std_error": evidence.std_error}
    return [replace(row, **cells)]


def _figure(model: Bimodal, seed: int, rows: list[Row]) -> Any:
    figure, axes = new_figure(1, 3, (11, 3.4))
    _plot_densities(axes[0], model, seed)
    for proposal, colour in COLOURS.items():
        chosen = select(rows, proposal=proposal)
        plot_curve(axes[1], chosen, "num_particles", color=colour, label=f"{proposal} proposal")
        cells = ("log_evidence", "log_evidence_std_error")
        plot_curve(axes[2], chosen, "num_particles", *cells, color=colour, label=proposal)
    axes[1].axhline(0.0, color="grey", lw=0.8)
    axes[1].set(title="AIDE", ylabel="AIDE estimate (nats)", yscale="symlog")
    axes[1].set_ylim(bottom=-0.5)
    truth = model.log_evidence()
    axes[2].axhline(truth, color="black", ls="--", lw=1, label="truth")
    axes[2].set(title="evidence", ylabel="mean log evidence estimate", ylim=(truth - 8, None))
    for axis in axes[1:]:
        axis.set(xscale="log", xlabel="particles")
        axis.legend(frameon=False, fontsize=8)
    return figure


def _plot_densities(axis: Any, model: Bimodal, seed: int) -> None:
    from scipy.stats import gaussian_kde

    grid = np.linspace(-2.0, 4.0, 600)
    with jax.enable_x64(True):
        log_joint = np.asarray(jax.vmap(model.log_joint)(jnp.asarray(grid)))
    axis.fill_between(grid, np.exp(log_joint - model.log_evidence()), color="grey", alpha=0.3, lw=0)
    for proposal, colour in COLOURS.items():
        for count, alpha in SHOWN.items():
            algorithm = model.algorithm(proposal, count)
            keys = jax.random.split(jax.random.key(seed), 2000)
            values = np.asarray(
                jax.jit(jax.vmap(lambda key, a=algorithm: a.simulate(key)[0]))(keys)
            )
            density = gaussian_kde(values, bw_method=0.05)(grid)
            axis.plot(grid, density, color=colour, alpha=alpha, label=f"{proposal}, {count}")
    axis.set(title="densities", xlabel="x", ylabel="density")
    axis.legend(frameon=False, fontsize=7)
