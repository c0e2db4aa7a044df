"""The output density of HMC by integrating over momenta, without anything of the library."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reference.forward_truth import Groups


def backward_density(
    key: Any,
    log_start: Any,
    log_density: Any,
    path: tuple[float, int],
    num_steps: int,
    points: np.ndarray,
    groups: int,
    num: int,
) -> Groups:
    r"""The output density of HMC (step size, leapfrog steps) by integrating over momenta.

    For one step $q_1(x) = \gamma(x) E_v[a\,q_0(y)/\gamma(y) + (1 - a)\,q_0(x)/\gamma(x)]$: leapfrog
    from $(x, v)$ leads to the state that would have come to $x$, and detailed balance gives the
    ratio. Each of the groups averages `num` momenta per point.
    """
    with jax.enable_x64(True):
        copies = max(1, 400_000 // len(points))
        many = jnp.tile(jnp.asarray(points), (copies, 1))
        walks = max(1, num // copies)
        walk = jax.jit(lambda k, x: _backward(k, log_start, log_density, path, num_steps, x, walks))
        found = []
        for k in jax.random.split(key, groups):
            found.append(np.asarray(walk(k, many)).reshape(copies, -1).mean(axis=0))
        return Groups(np.stack(found))


def _backward(
    key: Any, log_start: Any, log_density: Any, path: Any, num_steps: int, points: Any, num: int
) -> Any:
    """Mean over `num` walks back of start over posterior density, the last step summed out."""
    h, leapfrogs = path
    density, slope = jax.vmap(log_density), jax.vmap(jax.grad(log_density))
    ratio = lambda x: jnp.exp(jax.vmap(log_start)(x) - density(x))

    def propose(key: Any, x: Any) -> Any:
        v = jax.random.normal(key, x.shape)

        def leap(carry: Any, _: Any) -> Any:
            y, w, force = carry
            w = w + 0.5 * h * force
            y = y + h * w
            force = slope(y)
            return (y, w + 0.5 * h * force, force), None

        (y, w, _), _ = jax.lax.scan(leap, (x, v, slope(x)), None, length=leapfrogs)
        log_ratio = density(y) - density(x) + 0.5 * (jnp.sum(v**2, -1) - jnp.sum(w**2, -1))
        return y, jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(0.0, log_ratio)))

    def walk(total: Any, key: Any) -> Any:
        def step(x: Any, key: Any) -> Any:
            key_noise, key_accept = jax.random.split(key)
            y, accept = propose(key_noise, x)
            keep = jax.random.uniform(key_accept, accept.shape) < accept
            return jnp.where(keep[:, None], y, x), None

        *keys, last = jax.random.split(key, num_steps)
        x = jax.lax.scan(step, points, jnp.stack(keys))[0] if keys else points
        y, accept = propose(last, x)
        moved = jnp.where(accept > 0, accept * ratio(y), 0.0)
        return total + moved + (1 - accept) * ratio(x), None

    total, _ = jax.lax.scan(walk, jnp.zeros(len(points)), jax.random.split(key, num))
    return jnp.exp(density(points)) * total / num
