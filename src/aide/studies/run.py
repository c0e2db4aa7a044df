"""The work of the commands, after their arguments are parsed."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import jax

from aide._core.algorithm import InferenceAlgorithm
from aide._core.process import InUse
from aide.comparing.compare import compare, compare_estimates
from aide.estimation.errors.tolerance import Tolerance
from aide.estimation.estimate import estimate
from aide.estimation.summary import Estimate
from aide.experiments.runner import BadInput
from aide.reporting.numbers import EXIT_CODES, PASSED
from aide.reporting.result import Result
from aide.studies.folder import StudyFolder
from aide.studies.options import StudyOptions
from aide.studies.report import write_report
from aide.studies.story import judged_of, story_of
from aide.studies.study import Study
from aide.tuning.tune import tune


def measure(study: Study, options: StudyOptions, executor: Executor | None = None) -> Result:
    """Measure each target of a study, and write the result into the folder."""
    folder = StudyFolder(options.out)
    names = list(study.targets)
    with _opened(folder, "measure", options, names):
        found = {
            name: _estimate(study, target, options, folder.checkpoint(name), executor)
            for name, target in study.targets.items()
        }
        if len(found) == 1:
            [result] = found.values()
        else:
            result = compare_estimates(found, options.tolerance)
        return _finished(folder, study, options, result)


def compare_targets(
    study: Study, options: StudyOptions, executor: Executor | None = None
) -> Result:
    """Compare the targets of a study with shared gold runs; M is raised where looseness hides."""
    folder = StudyFolder(options.out)
    names = list(study.targets)
    with _opened(folder, "compare", options, names):
        result = compare(
            jax.random.key(options.seed),
            study.gold,
            study.targets,
            tolerance=options.tolerance,
            checkpoint={name: folder.checkpoint(name) for name in names},
            executor=executor,
            keep_values=True,
            unchanged=options.unchanged,
            **_sizes(options, 500, 1),
        )
        return _finished(folder, study, options, result)


def tune_target(study: Study, options: StudyOptions, executor: Executor | None = None) -> Result:
    """Find the cheapest setting of a study's target."""
    if options.tolerance is None:
        raise BadInput("aide tune needs --tolerance.")
    folder = StudyFolder(options.out)
    with _opened(folder, "tune", options, []):
        result = tune(
            jax.random.key(options.seed),
            study.gold,
            study.family,
            study.settings,
            tolerance=options.tolerance,
            cost=study.cost,
            max_runs=options.max_runs,
            max_seconds=options.max_seconds,
            folder=folder.runs,
            executor=executor,
            unchanged=options.unchanged,
        )
        return _finished(folder, study, options, result)


def shown_of(result: Result) -> tuple[Result, ...]:
    """The results that a command prints: of a single estimate first its errors, then nats."""
    if isinstance(result, Estimate) and all(s.values is not None for s in result.draws.sides):
        return result.errors(), result
    return (result,)


def exit_code(result: Result, tolerance: Tolerance | None) -> int:
    """0 if all passed or without a tolerance, 1 if a target failed, 3 if one is undecided."""
    return EXIT_CODES[judged_of(result, tolerance) or PASSED]


def _estimate(
    study: Study,
    target: InferenceAlgorithm,
    options: StudyOptions,
    checkpoint: Any,
    executor: Executor | None,
) -> Estimate:
    settings: dict[str, Any] = _sizes(options, None, None)
    if options.until is not None:
        settings |= {"until": options.until, "max_runs": options.max_runs}
        settings["max_seconds"] = options.max_seconds
    return estimate(
        jax.random.key(options.seed),
        study.gold,
        target,
        checkpoint=checkpoint,
        executor=executor,
        keep_values=True,
        unchanged=options.unchanged,
        **settings,
    )


def _sizes(options: StudyOptions, num_runs: int | None, meta: int | None) -> dict[str, Any]:
    runs = num_runs if options.num_runs is None else options.num_runs
    metas = meta if options.meta is None else options.meta
    sizes = {"num_gold": runs, "num_target": runs}
    return {**sizes, "num_meta_gold": metas, "num_meta_target": metas}


def _finished(folder: StudyFolder, study: Study, options: StudyOptions, result: Result) -> Result:
    """Write the result and its report."""
    story = story_of(study, options, result)
    folder.save(story, result.to_csv())
    write_report(story, folder.report)
    return result


@contextmanager
def _opened(
    folder: StudyFolder, command: str, options: StudyOptions, names: list[str]
) -> Iterator[None]:
    """Work in the folder; bad input and interruptions become errors of one line, with advice."""
    try:
        with folder.opened(command, options.seed, options.described(), names):
            yield
    except InUse as error:
        raise BadInput(str(error)) from error
    except ValueError as error:  # runs of other algorithms, or of other settings
        if str(folder.path) in str(error):
            raise BadInput(str(error)) from error
        raise
    except KeyboardInterrupt as stop:
        raise type(stop)(f"finished runs are kept in {folder.path}") from None


COMMANDS = {"measure": measure, "compare": compare_targets, "tune": tune_target}
