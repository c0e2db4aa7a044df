"""Suites of published numbers: a small checkout whose ground truth is exact, and log evidence."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import aide
from aide._core.algorithm import Aside
from aide.adapters.gaussian import Gaussian
from aide.adapters.numpyro.posterior import NumpyroPosterior
from aide.cli import app
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard, Making
from aide.scorecard import published, suite_at
from aide.scorecard.suites.gym_models import GYM_MODELS, WALK_STEP
from aide.scorecard.suites.inference_gym import arrays_of, moments_of

WALK = "brownian_motion_missing_middle_observations"
OBSERVED = np.array([0.2, 0.1, np.nan, -0.3])
ERROR = 0.15
Z_MAX = 5.0
SMALL_ERROR = 1e-4


def exact():
    """Mean and covariance of the noise of the walk given the observations, by linear algebra."""
    seen = ~np.isnan(OBSERVED)
    path = WALK_STEP * np.tril(np.ones((4, 4)))
    precision = np.eye(4) + path[seen].T @ path[seen] / ERROR**2
    covariance = np.linalg.inv(precision)
    return covariance @ path[seen].T @ OBSERVED[seen] / ERROR**2, covariance, path


def array_text(name, values):
    numbers = "".join(f"    {value!r},\n" for value in values.tolist())
    return f"{name} = np.array([\n{numbers}]).reshape(({len(values)},))\n\n"


def checkout(folder, shift=0.0):
    """Write files as the gym has them; the last published mean is shifted."""
    gym = folder / "spinoffs" / "inference_gym" / "inference_gym"
    for place in ("targets/ground_truth", "internal/datasets"):
        (gym / place).mkdir(parents=True)
    mean, covariance, path = exact()
    means = path @ mean + shift * np.array([0, 0, 0, 1])
    parts = {
        "IDENTITY_MEAN": means,
        "IDENTITY_MEAN_STANDARD_ERROR": np.full(4, SMALL_ERROR),
        "IDENTITY_STANDARD_DEVIATION": np.sqrt(np.diag(path @ covariance @ path.T)),
    }
    truth = "import numpy as np\n\n" + "".join(array_text(*each) for each in parts.items())
    (gym / "targets" / "ground_truth" / f"{WALK}.py").write_text(truth)
    (gym / "targets" / "ground_truth" / "radon_somewhere.py").write_text("")
    observed = ", ".join("np.nan" if np.isnan(y) else repr(y) for y in OBSERVED.tolist())
    data = f"OBSERVED_LOC = np.array([{observed}]).astype(dtype=np.float32)\n"
    data += f"OBSERVATION_NOISE = {ERROR}\n"
    (gym / "internal" / "datasets" / f"{WALK}.py").write_text(data)
    return folder


def gold(self, key, **options):
    """The exact posterior as a gold standard."""
    mean, covariance, _ = exact()
    agreement = Agreement("itself", 0.0, 0.01, 0.05, "passed")
    record = Record("exact", 0.05, (), (0.0, 0.001), (0.0, 0.01), 0.0, agreements=(agreement,))
    fit = Gaussian(mean, np.linalg.cholesky(covariance))
    return GoldStandard(aide.Tractable.of(fit), Aside(Making(record, None)))


def compared(folder, out):
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr(NumpyroPosterior, "gold", gold)
        return published(folder, out, num_draws=2000, executor=threads, progress=False)


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    folder = checkout(tmp_path_factory.mktemp("checkout"))
    return compared(folder, folder / "rows")


def test_published_numbers_agree(card):
    [row] = card.measured
    assert len(row["numbers"]) == 8
    assert row["largest_z"] < Z_MAX
    assert {number["published_error"] for number in row["numbers"][::2]} == {SMALL_ERROR}
    assert not card.disagreements


def test_a_wrong_number_is_seen(tmp_path):
    """Control: one published mean is off by half a standard deviation of the posterior."""
    found = compared(checkout(tmp_path, shift=0.05), tmp_path / "rows")
    [row] = found.disagreements
    assert row["worst"] == "mean of x[4]"
    assert row["largest_z"] > 2 * Z_MAX
    assert WALK in found.rows()[0][1]


def test_targets_without_data_have_their_reason(card):
    assert card.notes == (
        "radon_somewhere: Its data are not part of the checkout: the gym downloads them.",
    )


def test_the_result_is_shown(card):
    assert "Published numbers compared: 8." in card.headline
    assert max(map(len, card._page().text(80).splitlines())) <= 80
    assert len(card.records()) == 8
    assert card.plot() is not None


def test_files_are_data_and_are_not_executed(tmp_path):
    file = tmp_path / "truth.py"
    file.write_text(
        "import numpy as np\nraise SystemExit\nA_MEAN = np.array([-1.5]).reshape(())\n"
        "A_MEAN_STANDARD_ERROR = np.array([0.1]).reshape(())\nB = open('x')\n"
        "A_STANDARD_DEVIATION = np.array([2.0]).reshape(())\n"
    )
    found = moments_of(arrays_of(file))
    assert found["a"] == (-1.5, 0.1, 2.0, pytest.approx(0.1 / 2**0.5))


def test_evidence_comes_with_its_data():
    suite = suite_at("evidence")
    assert suite is not None
    case = suite.load("ionosphere")
    with jax.enable_x64(True):
        at_zero = float(case.posterior.log_joint(jnp.zeros(35)))
    np.testing.assert_allclose(at_zero, -351 * np.log(2) - 17.5 * np.log(2 * np.pi), rtol=1e-12)
    assert case.log_evidence == (-111.63, 0.17)
    assert "data do not come with this package" in suite.refusal("sonar")


@pytest.mark.full
@pytest.mark.parametrize("name", GYM_MODELS)
def test_quantities_are_those_of_the_model(name):
    """With noise 0 a walk stays where it begins, and schools have the mean effect."""
    model = GYM_MODELS[name]
    ones: dict[str, np.ndarray] = {"noise": np.zeros((2, 5)), "persistence": np.full(2, 0.9)}
    ones |= {n: np.full(2, 0.5) for n in ("avg_effect", "log_stddev", "mean_log_volatility")}
    ones |= {n: np.full(2, 0.3) for n in ("innovation_scale", "observation_scale")}
    ones |= {n: np.full(2, 0.3) for n in ("innovation_noise_scale", "observation_noise_scale")}
    ones |= {"white_noise_shock_scale": np.full(2, 0.3)}
    if "lorenz" in name:
        ones["noise"] = np.zeros((2, 5, 3))
    found = model.quantities(ones)
    still = {"school_effects": 0.5, "x": 0.0, "locs": 0.0, "latents": 0.0, "log_volatility": 0.5}
    [path] = [found[part] for part in still if part in found]
    [value] = [still[part] for part in still if part in found]
    np.testing.assert_allclose(path, value)


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match="is no checkout of TensorFlow Probability"):
        published(tmp_path, tmp_path / "rows")
    with pytest.raises(ValueError, match="no posterior that fits x: ionosphere, sonar"):
        published("evidence", tmp_path / "rows", only="x")
    words = ["scorecard", "evidence", "--tolerance", "0.5", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
