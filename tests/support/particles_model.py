"""The local-level model of `support.numpy_model` for the package `particles`, two filters of it.

Loaded by the interpreter that has `particles`.
"""

import numpy as np
from particles import distributions as dists
from particles import state_space_models as ssm

DATA = np.array([0.3, -1.0, 0.5, 0.9])


class LocalLevel(ssm.StateSpaceModel):
    def PX0(self):
        return dists.Normal(loc=0.0, scale=1.0)

    def PX(self, t, xp):
        return dists.Normal(loc=xp, scale=0.8)

    def PY(self, t, xp, x):
        return dists.Normal(loc=x, scale=0.5)

    def proposal0(self, data):
        return dists.Normal(loc=0.8 * data[0], scale=np.sqrt(0.2))

    def proposal(self, t, xp, data):
        gain = 0.64 / 0.89
        return dists.Normal(loc=xp + gain * (data[t] - xp), scale=0.8 * np.sqrt(0.25 / 0.89))


def make():
    return ssm.Bootstrap(ssm=LocalLevel(), data=DATA)


def make_guided():
    return ssm.GuidedPF(ssm=LocalLevel(), data=DATA)
