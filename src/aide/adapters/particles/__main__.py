"""Runs filters of `particles` in another interpreter; started by `ForeignProcess`.

    python __main__.py FILE FUNCTION

Every line of standard input is a question (a JSON object), every line of standard output an
answer. This file imports nothing of aide, and works with NumPy 1.
"""

import importlib.util
import json
import os
import sys
import traceback
import warnings

import numpy as np
import particles
from particles.mcmc import CSMC


class PermutedCSMC(CSMC):
    """Conditional SMC of the package, with ancestors in random order."""

    def resample_move(self):
        """Resample, permute the ancestors, then move all and put the retained state into slot 0.

        Slot 0 also gets the retained parent, on which weights of a guided filter depend.
        """
        before = self.X
        self.rs_flag = self.fk.time_to_resample(self)
        if self.rs_flag:
            ancestors = particles.resampling.resampling(self.resampling, self.aux.W, M=self.N)
            self.A = np.random.permutation(ancestors)  # noqa: NPY002 - as the package does
            self.reset_weights()
        else:
            self.A = np.arange(self.N)
        self.A[0] = 0
        self.Xp = before[self.A]
        self.X = self.fk.M(self.t, self.Xp)
        self.X[0] = self.xstar[self.t]


CONDITIONAL = {"theirs": CSMC, "permuted": PermutedCSMC}
"""Conditional SMC by name."""


class Filters:
    """One model: runs, conditional runs and densities of paths."""

    def __init__(self, file, function):
        spec = importlib.util.spec_from_file_location("users_model", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.make = getattr(module, function)
        self.data = self.make().data

    def model(self, question):
        """The Feynman-Kac model of the first `num_steps` observations."""
        fk = self.make()
        fk.data = self.data[: question["num_steps"]]
        return fk

    def answer(self, question):
        """Answer one question with plain numbers and lists."""
        kind = question["question"]
        if kind == "num_steps":
            return len(self.data)
        np.random.seed(question["seed"])  # noqa: NPY002 - the package draws from it
        fk = self.model(question)
        if kind == "simulate":
            smc = particles.SMC(
                fk=fk,
                N=question["num_particles"],
                resampling="multinomial",
                ESSrmin=question["ess_fraction"],
                store_history=True,
                collect="off",
            )
            smc.run()
            path = np.array(smc.hist.extract_one_trajectory())
        else:
            path = np.array(question["path"])
            smc = CONDITIONAL[question["conditional"]](
                fk=fk, N=question["num_particles"], ESSrmin=question["ess_fraction"], xstar=path
            )
            smc.run()
        return {"path": path.tolist(), "log_xi": log_joint(fk, path) - float(smc.logLt)}


def log_joint(fk, path):
    """Log p(x_1:T, y_1:T) of one path, by the model's own distributions."""
    ssm, before, total = fk.ssm, None, 0.0
    for t, y in enumerate(fk.data):
        x = path[t : t + 1]
        law = ssm.PX0() if t == 0 else ssm.PX(t, before)
        total += float(np.sum(law.logpdf(x)) + np.sum(ssm.PY(t, before, x).logpdf(y)))
        before = x
    return total


def main():
    """Answer questions until the pipe is closed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the user's code must not mix with answers
    warnings.filterwarnings("ignore", module=r"particles\.")
    filters = Filters(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        try:
            answer = {"answer": filters.answer(json.loads(line))}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
