"""Stan models without Stan: the interface of `bridgestan.StanModel`, in NumPy and JAX."""

import jax
import jax.numpy as jnp
import numpy as np

from support import all_schools as schools


class BridgedSchools:
    """Eight schools, centred: mu, tau > 0, theta[8]; a transformed parameter `spread`."""

    def param_names(self, *, include_tp=False, include_gq=False):
        names = ["mu", "tau", *(f"theta.{i}" for i in range(1, 9))]
        return names + ["spread"] * (include_tp or include_gq)

    def param_unc_num(self) -> int:
        return 10

    def param_constrain(self, theta_unc):
        return np.array([theta_unc[0], np.exp(theta_unc[1]), *theta_unc[2:]])

    def param_unconstrain(self, theta):
        if theta[1] <= 0:
            raise RuntimeError("tau must be positive")
        return np.array([theta[0], np.log(theta[1]), *theta[2:]])

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        if theta_unc[1] > 700:
            raise RuntimeError("Scale parameter is inf")
        with jax.enable_x64(True):
            value = float(schools.log_joint(jnp.asarray(theta_unc), True))
        return value + 39.0 * propto - theta_unc[1] * (not jacobian)

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        with jax.enable_x64(True):
            slope = jax.grad(lambda x: schools.log_joint(x, True))(jnp.asarray(theta_unc))
        return self.log_density(theta_unc, propto=propto), np.array(slope)


class BridgedOddities(BridgedSchools):
    """matrix[2, 2] in Stan's order, then a variable above another one, then a simplex of 3."""

    keeps_constants = False

    def param_names(self, *, include_tp=False, include_gq=False):
        matrix = ["B.1.1", "B.2.1", "B.1.2", "B.2.2"]
        return [*matrix, "low", "high", "s.1", "s.2", "s.3"]

    def param_unc_num(self) -> int:
        return 8

    def param_constrain(self, theta_unc):
        low, gap, *logits = theta_unc[4:]
        shares = np.exp([0.0, *logits])
        return np.array([*theta_unc[:4], low, low + np.exp(gap), *(shares / shares.sum())])

    def param_unconstrain(self, theta):
        logits = np.log(theta[7:] / theta[6])
        return np.array([*theta[:4], theta[4], np.log(theta[5] - theta[4]), *logits])

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        return -0.5 * float(np.sum(theta_unc**2))
