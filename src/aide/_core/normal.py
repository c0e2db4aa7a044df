"""Standard normal draws by inversion, three times faster on CPU than `jax.random.normal`."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from aide._core.numerics import computed_once
from aide._core.random import standard_uniform
from aide._core.types import Key

# Coefficients of Wichura (1988), Algorithm AS 241 (PPND16), Applied Statistics 37: 477-484;
# highest power first. Relative error about 1e-16.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)  # fmt: skip


def standard_normal(key: Key, shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    r"""Independent standard normals, $\Phi^{-1}(U)$ with $U$ uniform on a grid inside $(0, 1)$."""
    points = standard_uniform(key, shape, dtype)
    # standard_uniform includes 0 but not 1; half a step to the right makes the grid symmetric.
    return normal_quantile(points + 0.5 * jnp.finfo(points.dtype).eps)


@jax.jit  # traced and lowered once, however often a program calls it
def normal_quantile(probability: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\Phi^{-1}(p)$ for $0 < p < 1$, without branches."""
    centred = probability - 0.5
    distance = jnp.sqrt(-jnp.log(jnp.minimum(probability, 1.0 - probability)))
    is_centre, is_tail = jnp.abs(centred) <= 0.425, distance <= 5.0
    inside, near, far = 0.180625 - centred * centred, distance - 1.6, distance - 5.0
    # One division for all three cases: it costs as much as a polynomial.
    top, bottom = (
        jnp.where(
            is_centre,
            _horner(_CENTRE[part], inside),
            jnp.where(is_tail, _horner(_TAIL[part], near), _horner(_FAR_TAIL[part], far)),
        )
        for part in range(2)
    )
    quantile = jnp.where(is_centre, centred, jnp.sign(centred)) * (top / bottom)
    return computed_once(quantile)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
