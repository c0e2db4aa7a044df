"""The site: what is built from which folder, how pages run, and how pages look."""

import hashlib
import os
import shutil
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "_build"
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from jupyter_cache import get_cache  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.config import Config  # noqa: E402
from sphinx.environment import BuildEnvironment  # noqa: E402

import aide  # noqa: E402

project = "aide"
author = "The aide authors"
project_copyright = author
version = release = aide.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "sphinxcontrib.katex",
    "executed_pages",
    "command_line",
    "measured_tables",
    "public_names",
    "scorecard_parts",
    "whole_links",
]
exclude_patterns = ["_build", "_ext", "_ipython", "_static", "_templates", "measured/results"]
templates_path = ["_templates"]

# Pages are Markdown that reads well on the repository's page, too.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False


def digest_of_library() -> str:
    """A short name of the library's code: pages show what the code of now prints."""
    found = hashlib.sha256()
    for file in sorted(Path(aide.__file__).parent.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


# Every `python` fence runs once, in a folder of its own that is thrown away. What a page printed
# is kept until the code of the page or of the library changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "executed" / digest_of_library())
nb_execution_in_temp = True
nb_execution_timeout = 600  # seconds for one fence; the slowest needs about 100
nb_execution_raise_on_error = False  # an error is a warning, which ends the build: after all pages
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress and log lines of other libraries; errors end the build
# Kernels are processes of their own: what they need reaches them as environment variables.
os.environ |= {
    "COLUMNS": "80",
    "IPYTHONDIR": str(HERE / "_ipython"),
    "JAX_COMPILATION_CACHE_DIR": str(BUILD / "compiled"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields of a class stand in its list of members, too
suppress_warnings = ["ref.python"]  # fields of several classes have one name

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"

# Formulas become HTML when the site is built: a formula that is wrong ends the build, and a
# reader's browser needs only the style and the fonts, which `make docs` puts into `_build/katex`.
katex_prerender = True
katex_options = "{throwOnError: true}"
katex_css_path = "katex.min.css"

SITES = {
    "jax": "https://docs.jax.dev/en/latest/",
    "numpy": "https://numpy.org/doc/stable/",
    "python": "https://docs.python.org/3/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "xarray": "https://docs.xarray.dev/en/stable/",
}
"""Documentation of other libraries that types in signatures link to."""
SECONDS_TO_REACH_A_SITE = 3


def answers(address: str) -> bool:
    """Whether another library's list of names can be read now."""
    try:
        with urllib.request.urlopen(address, timeout=SECONDS_TO_REACH_A_SITE):
            return True
    except OSError:
        return False


# Without a network, names of other libraries stay plain text, and nothing is waited for.
intersphinx_mapping = (
    {name: (address, None) for name, address in SITES.items()}
    if answers(SITES["python"] + "objects.inv")
    else {}
)

html_theme = "pydata_sphinx_theme"
html_title = "aide"
html_static_path = ["_static", "_build/katex"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"gallery": []}
html_theme_options = {
    "logo": {"text": "aide"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}


def make_cache(app: Sphinx, config: Config) -> None:
    """Create the database of what pages printed before any page is read.

    Processes that read pages would all create the database at once, and all but one would fail.
    """
    now = Path(nb_execution_cache_path)
    now.mkdir(parents=True, exist_ok=True)
    for other in now.parent.iterdir():  # what earlier code of the library printed
        if other.is_dir() and other != now:
            shutil.rmtree(other)
    _ = get_cache(nb_execution_cache_path).db  # asking for the database creates it


def write_alone(app: Sphinx, env: BuildEnvironment) -> None:
    """Pages are written by one process: formulas are drawn by a server that a process starts.

    A second process would leave its server running, and whoever waits for its output would wait
    for ever. Pages are read, and their code run, by as many processes as `--jobs` says.
    """
    app.parallel = 1


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("config-inited", make_cache)
    app.connect("env-updated", write_alone)
