"""What the fixture `aide_laws` offers: checks that raise with the law and the move."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aide._core.algorithm import InferenceAlgorithm
    from aide._core.distribution import Distribution
    from aide._core.types import LogDensity
    from aide.checking import CheckReport, KernelCheck
    from aide.estimation.summary import Estimate


class LawBroken(AssertionError):
    """A law is broken; a correct sampler shows this with at most the stated probability."""


class LawUndecided(AssertionError):
    """No law is seen to be broken, but the test could not have shown that they hold."""


class GateFailed(AssertionError):
    """A target is not shown to be within its tolerance."""


@dataclass
class AideLaws:
    """Checks of one test, each with its part of the test's share of the false-alarm rate.

    Attributes:
        share: Probability with which this test may report a law of a correct sampler as broken.
        seed: Seed of the suite.
        name: Name of the test; with the seed, it decides all random numbers.
        record: Takes the name of a check and its verdict.
    """

    share: float
    seed: int
    name: str
    record: Callable[[str, str], None] = field(repr=False)
    _num_checks: int = field(default=0, init=False, repr=False)

    def kernel(
        self,
        kernel: Any,
        log_density: "LogDensity",
        start: "Distribution",
        *,
        reversal: Any = None,
        num_runs: int = 20_000,
        allow_undecided: bool = False,
    ) -> "KernelCheck":
        """One step leaves the density invariant and is reversible; see `aide.check_kernel`.

        Args:
            kernel: A function `step(key, x)` or `step(key, log_density, x)`, an object with
                `init(x)` and `step(key, state)`, or a kernel of aide.
            log_density: Log density of one state, up to a constant.
            start: Where steps start: anything with `sample(key)` and `log_prob(x)`.
            reversal: The kernel that reverses this one; `False` claims no reversal, so that
                invariance alone is tested.
            num_runs: Number of steps; small errors need many.
            allow_undecided: Let a start that does not cover the density pass the test.

        Raises:
            LawBroken: The message names the law and the function of the state that shows it.
            LawUndecided: The start does not cover the density.
        """
        __tracebackhide__ = True
        import aide

        key, false_alarm = self.next_check()
        found = aide.check_kernel(
            key,
            kernel,
            log_density,
            start,
            reversal=reversal,
            num_runs=num_runs,
            false_alarm=false_alarm,
        )
        limit = false_alarm / len(found.tests)
        laws = [test.law for test in found.tests if test.p_value < limit]
        self._judge("kernel", found, laws, "", allow_undecided)
        return found

    def algorithm(
        self,
        algorithm: "InferenceAlgorithm",
        *,
        num_runs: int = 6_000,
        allow_undecided: bool = False,
        **options: Any,
    ) -> "CheckReport":
        """`simulate` and `regenerate` obey the laws of an algorithm; see `aide.check`.

        Args:
            algorithm: Anything with `simulate(key)` and `regenerate(key, value)`.
            num_runs: Number of runs of `simulate`.
            allow_undecided: Let an algorithm pass the test of which some law could not be tested.
            **options: Other options of `aide.check`, such as `shrink`.

        Raises:
            LawBroken: The message names the laws, and the first wrong move where it was found.
            LawUndecided: Some law could not be tested; the message says which and why.
        """
        __tracebackhide__ = True
        import aide

        key, false_alarm = self.next_check()
        options = {"progress": False, **options}
        found = aide.check(key, algorithm, num_runs=num_runs, false_alarm=false_alarm, **options)
        laws = [str(law) for law in sorted({item.law for item in found.failures})]
        place = f"; the first wrong move is {found.place}" if found.place else ""
        self._judge("algorithm", found, laws, place, allow_undecided)
        return found

    def within(
        self,
        tolerance: Any,
        gold: "InferenceAlgorithm",
        target: "InferenceAlgorithm",
        **sizes: Any,
    ) -> "Estimate":
        """A gate: the target is shown to be within a tolerance of the gold standard (95%).

        A gate passes only on evidence, so that it also fails if there are too few runs. The
        false-alarm rate of the suite does not cover gates.

        Args:
            tolerance: Nats, or errors such as `means 0.1 sd, sds 10%`.
            gold: The gold standard.
            target: The algorithm that is measured.
            **sizes: `num_gold`, `num_target` and other options of `aide.estimate`.

        Raises:
            GateFailed: The target is shown to be further away, or neither is shown; the message
                says which, and what would decide.
        """
        __tracebackhide__ = True
        import aide
        from aide.estimation.closeness import NotWithin

        key, _ = self.next_check()
        sizes.setdefault("progress", False)
        found = aide.estimate(key, gold, target, **sizes)
        verdict = found.judge(tolerance).outcome
        self.record("gate", verdict)
        try:
            return found.require(tolerance)
        except NotWithin as error:
            raise GateFailed(f"{error}\n\n{found}") from None

    def next_check(self) -> tuple[Any, float]:
        """Key and false-alarm rate of the next check: the k-th takes 1/(k (k + 1)) of the share.

        For checks of your own that take a key and a false-alarm rate.
        """
        import jax

        self._num_checks += 1
        number = self._num_checks
        name = zlib.crc32(self.name.encode())
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), name), number)
        return key, self.share / (number * (number + 1))

    def _judge(
        self, check: str, found: Any, laws: list[str], place: str, allow_undecided: bool
    ) -> None:
        __tracebackhide__ = True
        self.record(check, found.verdict)
        if found.verdict == "passed" or (allow_undecided and found.verdict == "undecided"):
            return
        if found.verdict == "failed":
            which = f"law{'s' if len(laws) > 1 else ''} {' and '.join(laws)}"
            raise LawBroken(f"{found.name} breaks {which}{place}.\n\n{found}")
        raise LawUndecided(
            f"No law of {found.name} is seen to be broken, but not all could be shown to hold "
            f"(allow_undecided=True lets the test pass).\n\n{found}"
        )
