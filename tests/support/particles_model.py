"""A local-level model for the package `particles`, and two filters of it.

Loaded by the interpreter that has `particles`.
"""

import numpy as np
from particles import distributions as dists
from particles import state_space_models as ssm

DATA = np.array([2.0, 2.0, 2.0])


class LocalLevel(ssm.StateSpaceModel):
    """x_1 ~ N(0, 1), x_t ~ N(x_{t-1}, 0.1^2), y_t ~ N(x_t, 1): who descends from whom matters."""

    def PX0(self):
        return dists.Normal(loc=0.0, scale=1.0)

    def PX(self, t, xp):
        return dists.Normal(loc=xp, scale=0.1)

    def PY(self, t, xp, x):
        return dists.Normal(loc=x, scale=1.0)

    def proposal0(self, data):
        return dists.Normal(loc=0.5 * data[0], scale=np.sqrt(0.5))

    def proposal(self, t, xp, data):
        gain = 0.01 / 1.01
        return dists.Normal(loc=xp + gain * (data[t] - xp), scale=0.1 / np.sqrt(1.01))


def make():
    return ssm.Bootstrap(ssm=LocalLevel(), data=DATA)


def make_guided():
    return ssm.GuidedPF(ssm=LocalLevel(), data=DATA)
