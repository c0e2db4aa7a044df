"""The picture of the home page and of the README: three approximations, and what AIDE says.

    python docs/pictures/home.py

writes `docs/_static/three_fits.png`, and the same in the colours of a dark page. Every number in
the picture is computed here.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from jax.scipy.special import logsumexp

import aide

STATIC = Path(__file__).parents[1] / "_static"
COLOURS = {
    "three_fits.png": {"page": "#ffffff", "ink": "#1f2328", "hills": "Greys", "dots": "#c8460a"},
    "three_fits_dark.png": {
        "page": "#14181e",
        "ink": "#e6e6e6",
        "hills": "bone",
        "dots": "#ff9b5e",
    },
}
NUM_DOTS = 250
HALF_WIDTH = 5.8


class Hills(eqx.Module):
    """A mixture of normals with equal weights."""

    means: jax.Array
    factors: jax.Array

    def sample(self, key: jax.Array) -> jax.Array:
        """A point of one of the components."""
        key_which, key_noise = jax.random.split(key)
        which = jax.random.randint(key_which, (), 0, len(self.means))
        return self.means[which] + self.factors[which] @ jax.random.normal(key_noise, (2,))

    def log_prob(self, x: jax.Array) -> jax.Array:
        """Log density of the mixture."""
        z = jax.vmap(lambda m, f: jnp.linalg.solve(f, x - m))(self.means, self.factors)
        dets = jnp.log(jnp.abs(jax.vmap(jnp.linalg.det)(self.factors)))
        logs = -0.5 * jnp.sum(z**2, axis=1) - dets - jnp.log(2 * jnp.pi * len(self.means))
        return logsumexp(logs)


def hills(means: list[list[float]], cov: list[list[float]]) -> Hills:
    """Components of one covariance."""
    factor = np.linalg.cholesky(np.array(cov))
    return Hills(jnp.array(means), jnp.array([factor] * len(means)))


TWO = [[-2.0, -1.2], [2.0, 1.2]]
ROUND = [[1.0, 0.75], [0.75, 1.0]]
POSTERIOR = hills(TWO, ROUND)
FITS = {
    "a small shift": hills([[-1.9, -1.2], [2.1, 1.2]], ROUND),
    "correlations missed": hills(TWO, [[0.5, 0.0], [0.0, 0.5]]),
    "one mode missed": hills(TWO[1:], ROUND),
}


def measure(fit: Hills) -> tuple[str, str]:
    """The divergence, and the error of any probability."""
    gold, target = aide.Tractable.of(POSTERIOR), aide.Tractable.of(fit)
    found = aide.estimate(0, gold, target, num_gold=4000, num_target=4000)
    value, error = found.value, found.std_error
    digits = 3 if error < 0.01 else 2 if error < 0.1 else 1
    nats = f"{value:.{digits}f} ± {error:.{digits}f} nats"
    return nats, f"any probability off by at most {found.total_variation():.2f}"


def draw_picture(path: Path, colours: dict[str, str], says: dict[str, tuple[str, str]]) -> None:
    """Three panels: the posterior as hills, draws of a fit as dots."""
    from matplotlib.figure import Figure

    ink = colours["ink"]
    line = np.linspace(-HALF_WIDTH, HALF_WIDTH, 161)
    points = jnp.stack(jnp.meshgrid(line, line), axis=-1)
    density = np.exp(np.asarray(jax.vmap(jax.vmap(POSTERIOR.log_prob))(points)))
    with mpl.rc_context({"font.family": "DejaVu Sans", "text.color": ink}):
        figure = Figure(figsize=(9, 3.4), layout="constrained", facecolor=colours["page"])
        for axis, (name, fit) in zip(figure.subplots(1, 3), FITS.items(), strict=True):
            heights = density.max() * np.array([0.01, 0.05, 0.15, 0.35, 0.65, 1.01])
            axis.contourf(
                line, line, density, heights, cmap=colours["hills"], vmin=-0.04, alpha=0.7
            )
            dots = np.asarray(jax.vmap(fit.sample)(jax.random.split(jax.random.key(1), NUM_DOTS)))
            axis.plot(*dots.T, ".", color=colours["dots"], ms=3.5, alpha=0.8, mew=0)
            axis.set(xlim=(-5.6, 5.6), ylim=(-4.8, 4.8), xticks=[], yticks=[], aspect="equal")
            axis.set_facecolor(colours["page"])
            axis.spines[:].set_visible(False)
            nats, reading = says[name]
            axis.set_title(f"{name}\n", fontsize=10.5, color=ink)
            axis.text(0.5, 1.02, nats, transform=axis.transAxes, ha="center", fontsize=13,
                      color=ink, fontweight="bold")  # fmt: skip
            axis.set_xlabel(reading, fontsize=9, color=ink)
        figure.savefig(path, dpi=160, facecolor=colours["page"])


if __name__ == "__main__":
    says = {name: measure(fit) for name, fit in FITS.items()}
    for name, colours in COLOURS.items():
        draw_picture(STATIC / name, colours, says)
    print(says)
