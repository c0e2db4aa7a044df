"""Gold standards on disk: the same ones come back, others and damaged files do not."""

import io
import json
import zipfile
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from support.results import RECIPE, RECORD, hand_made

import aide
from aide._core.algorithm import Aside
from aide._core.types import GOLD
from aide.auditing.audit import Widened
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import ignore
from aide.engine.runners.choose import identity_of, runner_of
from aide.gold_standards.annealed import Annealed
from aide.gold_standards.pilots.tuners import HmcTuner
from aide.gold_standards.record import Record
from aide.gold_standards.result import GoldStandard, Making
from aide.gold_standards.starts.tails import Covering, StudentMixture
from aide.kernels import ScaledCoordinates
from aide.problems.distributions import Normal

START = Normal(np.zeros(2), 3.0)


class LogJoint(eqx.Module):
    """A prior, and data about the sum."""

    data: np.ndarray

    def __call__(self, x):
        return START.log_prob(x) + Normal(x[0] + x[1], 0.5).log_prob(self.data)


LOG_JOINT = LogJoint(np.array([0.3, 0.9]))


@pytest.fixture(scope="module")
def gold():
    return hand_made(LOG_JOINT, START)


@pytest.fixture(scope="module")
def file(gold, tmp_path_factory):
    path = tmp_path_factory.mktemp("gold") / "standard.zip"
    gold.save(path)
    return path


def simulate(algorithm):
    return runner_of(algorithm).simulate(jax.random.key(3), GOLD, np.arange(3), Chunk(3), ignore)


@pytest.mark.full
def test_the_same_algorithm_comes_back(gold, file):
    again = aide.gold_standards.load(file, LOG_JOINT, START)
    assert identity_of(again) == identity_of(gold)
    assert identity_of(again.rival) == identity_of(gold.rival)
    assert again.record == gold.record
    assert repr(again) == repr(gold)
    again.save(file)  # and once more
    assert identity_of(aide.gold_standards.load(file, LOG_JOINT, START)) == identity_of(gold)


@pytest.mark.full
def test_the_same_numbers_come_back(gold, file):
    again = aide.gold_standards.load(file, LOG_JOINT, START)
    for one, other in zip(simulate(gold), simulate(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_something_else_is_refused_by_name(file):
    with pytest.raises(ValueError, match=r"log_joint.*data.* changed since it was made"):
        aide.gold_standards.load(file, LogJoint(np.array([0.3, 0.8])), START)
    with pytest.raises(ValueError, match=r"changed since it was made"):
        aide.gold_standards.load(file, lambda x: LOG_JOINT(x), START)
    with pytest.raises(ValueError, match=r"changed since it was made"):
        aide.gold_standards.load(file, LOG_JOINT, Normal(np.zeros(2), 2.9))
    with pytest.raises(ValueError, match="from a given start: pass that start"):
        aide.gold_standards.load(file, LOG_JOINT, np.zeros(2))


def rewritten(file, path, changes):
    """The archive with some entries replaced."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = changes.get(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return path


def test_damaged_files_and_pickles_are_refused(file, tmp_path):
    load = lambda path: aide.gold_standards.load(path, LOG_JOINT, START)
    content, path = file.read_bytes(), tmp_path / "damaged.zip"
    for damaged in (b"", b"no archive", content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged, or not a gold standard"):
            load(path)
    flipped = bytearray(content)
    flipped[200] ^= 255
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match=r"damaged"):
        load(path)
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"code": print}], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"damaged.*allow_pickle=False"):
        load(rewritten(file, path, {"0.settings.npy": pickled.getvalue()}))
    with pytest.raises(ValueError, match=r"it lacks 1.factors"):
        load(rewritten(file, path, {"1.factors.npy": None}))
    with pytest.raises(ValueError, match=r"is not a gold standard"):
        load(rewritten(file, path, {"about.json": "[]"}))
    other = json.dumps({"format": "aide gold standard", "version": 99})
    with pytest.raises(ValueError, match=r"format 99"):
        load(rewritten(file, path, {"about.json": other}))
    changed = io.BytesIO()
    np.save(changed, np.array([0.2, 0.4, 1.0]))
    for place in "01":  # numbers of the algorithm, and of its rival
        with pytest.raises(ValueError, match=r"changed since it was made"):
            load(rewritten(file, path, {f"{place}.temperatures.npy": changed.getvalue()}))
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.zip")


def test_fitted_starts_are_stored(tmp_path):
    fitted = StudentMixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.zeros(2))
    begin = Widened(fitted, np.zeros(2), 1.0)
    algorithm = RECIPE.build(begin, LOG_JOINT, HmcTuner(True))
    recipes = (Annealed(begin, RECIPE, None, algorithm, 0.0),)
    gold, path = GoldStandard(algorithm, Aside(Making(RECORD, None, recipes))), tmp_path / "fitted"
    gold.save(path)
    again = aide.gold_standards.load(path, LOG_JOINT, np.zeros(2))
    assert identity_of(again) == identity_of(gold)
    assert again.rival is None
    with pytest.raises(ValueError, match="fitted about a state: pass that state"):
        aide.gold_standards.load(path, LOG_JOINT, START)


@pytest.mark.full
def test_coordinates_and_covering_starts_are_stored(tmp_path):
    slopes = np.array([[0.0, 0.0], [0.5, 0.0]])
    bent = ScaledCoordinates(0.2 * slopes, slopes, np.zeros(2))
    stack = jax.tree.map(lambda leaf: np.stack([leaf, 0.9 * leaf]), bent)
    recipe = RECIPE._replace(coordinates=stack)
    begin = Covering(
        Widened(START, np.zeros(2), 1.0), [1.0], np.ones((1, 2)), np.eye(2)[None], bent
    )
    algorithm = recipe.build(begin, LOG_JOINT, HmcTuner(True))
    recipes = (Annealed(begin, recipe, None, algorithm, 0.0),)
    gold, path = GoldStandard(algorithm, Aside(Making(RECORD, None, recipes))), tmp_path / "bent"
    gold.save(path)
    again = aide.gold_standards.load(path, LOG_JOINT, START)
    assert identity_of(again) == identity_of(gold)
    changed = io.BytesIO()
    np.save(changed, 1.1 * np.ones((1, 2)))
    other = rewritten(path, tmp_path / "other", {"0.cover.means.npy": changed.getvalue()})
    with pytest.raises(ValueError, match=r"changed since it was made"):
        aide.gold_standards.load(other, LOG_JOINT, START)


def test_what_cannot_be_saved():
    gold = GoldStandard(aide.sir(START, LOG_JOINT, num_particles=2), Aside(Making(RECORD, None)))
    with pytest.raises(TypeError, match="only gold standards by tempered SMC are saved"):
        gold.save("never.zip")


def test_records_survive_text_infinities_included():
    infinite = replace(RECORD, looseness=(np.inf, np.inf))
    for record in (RECORD, infinite):
        assert Record.from_json(record.to_json()) == record
    assert not infinite.passed
    assert RECORD.passed
