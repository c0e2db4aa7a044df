"""Sentences on what was chosen, on shortcomings, and on what to try."""

import numpy as np

from aide._core.algorithm import describe
from aide.auditing.audit import Widened
from aide.gold_standards.annealed import Annealed
from aide.gold_standards.budget import Goal
from aide.gold_standards.pilots.tuners import Tuner
from aide.gold_standards.starts.tails import Covering, StudentMixture
from aide.gold_standards.testing import Tested
from aide.reporting.numbers import in_nats

SLOW = 20.0
"""Autocorrelation time, in steps of the kernel, from which a remark says so: a choice."""


def title_of(one: Annealed, tuner: Tuner) -> str:
    """One line: temperatures, particles, kernel."""
    recipe = one.recipe
    return (
        f"Tempered SMC, {len(recipe.temperatures)} temperatures, {recipe.num_particles:,} "
        f"particles, {tuner.name}"
    )


def chosen_words(one: Annealed, tuner: Tuner) -> tuple[tuple[str, str], ...]:
    """Name and text of everything that was chosen."""
    recipe, start = one.recipe, one.start
    about = ""
    if isinstance(start, Covering):
        num = len(np.asarray(start.weights))
        about = "what pilots found from it" if num == 1 else f"{num} modes or scales found from it"
        start = start.start
    start = start.distribution if isinstance(start, Widened) else start
    if isinstance(start, StudentMixture):
        num = len(start.weights)
        words = f"heavy tails about {num} mode{'s' if num > 1 else ''} that optimisers found"
    else:
        words = describe(start)
    if about:
        words = f"heavy tails about {about}, and a tenth of it: {words}"
    rows = [("start", words)]
    low, high, num = recipe.temperatures[0], recipe.temperatures[-2], len(recipe.temperatures)
    rows.append(("temperatures", f"{num}, from {low:.2g} over {high:.2g} to 1"))
    rows.append(("kernel", tuner.words(recipe.settings)))
    if recipe.coordinates is not None:
        num = int(np.sum(np.any(np.asarray(recipe.coordinates.slopes) != 0, axis=(0, 2))))
        text = f"{num} are scaled by others, because their spread depends on them"
        rows.append(("coordinates", text))
    return tuple(rows)


def remarks_of(one: Annealed, tested: Tested, goal: Goal) -> tuple[str, ...]:
    """Shortcomings with what to try, and what would make an expert stop."""
    found = list[str]()
    value, error = tested.pairs.looseness, tested.pairs.std_error
    if np.isfinite(value) and value - 2 * error > goal.looseness:
        why = (
            "a few outputs cause it, which the path reaches rarely: a wider start, or one that "
            "knows them, would help more than particles"
            if tested.pairs.is_rare
            else "more particles would help: raise max_evaluations"
        )
        found.append(
            f"Looseness is {in_nats(value, 2)}, {goal.looseness:g} were asked for; {why}. "
            "Estimates with this gold standard are too high by at most that looseness, at the "
            "gold standard's own outputs."
        )
    stages = one.pilot.stages if one.pilot else ()
    slow = max(stages, key=lambda stage: stage.time, default=None)
    if slow is not None and slow.time > SLOW:
        found.append(
            f"At temperature {slow.temperature:.2g} one step of the kernel forgets little: about "
            f"{slow.time:.0f} steps would be needed, so temperatures are closer there."
        )
    looked = () if tested.diagnosis is None else tested.diagnosis.notes
    return (*tested.failures, *found, *looked)
