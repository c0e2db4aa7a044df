"""Stan models without Stan: the interface of `bridgestan.StanModel`, in NumPy."""

import numpy as np

from support.numpyro_schools import EFFECTS, ERRORS


def log_normal(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


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
        mu, log_tau, theta = theta_unc[0], theta_unc[1], theta_unc[2:]
        tau = np.exp(log_tau)
        prior = log_normal(mu, 0, 5) - np.log(np.pi * 2.5 * (1 + (tau / 5) ** 2)) + log_tau
        value = (
            prior + np.sum(log_normal(theta, mu, tau)) + np.sum(log_normal(EFFECTS, theta, ERRORS))
        )
        return float(value + 39.0 * propto - log_tau * (not jacobian))

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        mu, tau, theta = theta_unc[0], np.exp(theta_unc[1]), theta_unc[2:]
        z, heavy = (theta - mu) / tau, (tau / 5) ** 2
        of_mu = -mu / 25 + np.sum(z) / tau
        of_log_tau = 1 - 2 * heavy / (1 + heavy) + np.sum(z**2 - 1)
        of_theta = -z / tau + (EFFECTS - theta) / ERRORS**2
        slope = np.array([of_mu, of_log_tau, *of_theta])
        return self.log_density(theta_unc, propto=propto), slope


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

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        return self.log_density(theta_unc), -theta_unc
