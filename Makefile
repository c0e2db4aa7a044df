# `make demo` and `make test` do everything on a machine with Python 3.11+, make and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the library needs, then what developing it needs: both into the same environment.
LIBRARY := $(VENV)/.library
DEVELOPMENT := $(VENV)/.development
# Stan's compiler is large, and only the long tests compile programs.
STAN := $(VENV)/.stan
# Sphinx and what pages show; KaTeX draws formulas and comes with its fonts.
DOCS := $(VENV)/.docs
KATEX := docs/_build/katex/katex.min.css
# The version that sphinxcontrib-katex renders with.
KATEX_VERSION := 0.16.22
LOWEST := .venv-lowest
INSTALL := -m pip install --quiet --disable-pip-version-check
# One worker per core: threads of linear algebra would only wait for each other.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -q

# Quick tests that run with any versions of the dependencies, the lowest included.
CORE_TESTS := tests/test_bounds.py \
	tests/test_imports.py tests/core/test_files.py tests/engine/test_storage.py \
	tests/estimation/test_estimate.py tests/estimation/test_report.py tests/kernels/test_involutions.py \
	tests/smc/test_resampling.py tests/convergence/test_convergence.py tests/experiments/test_command.py \
	tests/experiments/test_folder.py
# Every Python that we support, each with the newest ArviZ, PyMC, JAX and NumPyro it can have.
PYTHONS := 3.11 3.12 3.13

.PHONY: demo test test-full test-lowest test-newest lint types docs dist bench install clean

install: $(DEVELOPMENT)

$(LIBRARY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c constraints.txt -e .
	touch $@

$(DEVELOPMENT): $(LIBRARY)
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[dev]'
	touch $@

demo: $(LIBRARY)
	$(BIN)/aide demo

lint: $(DEVELOPMENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(DEVELOPMENT)
	$(BIN)/pyrefly check

test: lint types
	$(PYTEST) -m "not full"

$(STAN): $(DEVELOPMENT)
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[stan]'
	touch $@

test-full: lint types $(STAN)
	$(PYTEST)

# The oldest versions that pyproject.toml allows (there are wheels of them for Python 3.11, 3.12).
$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) -c constraints-lowest.txt -e '.[arviz,zarr]' pytest
	touch $@

test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pip check
	OPENBLAS_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -m "not full" $(CORE_TESTS)

.PRECIOUS: .venv-newest-%/.installed
# No constraints: pip takes the newest of everything that python3.N can have. pyenv, where it is
# used, must be told which one that is.
.venv-newest-%/.installed: pyproject.toml
	PYENV_VERSION=$* python$* -m venv .venv-newest-$*
	.venv-newest-$*/bin/python $(INSTALL) --upgrade -e '.[arviz,blackjax,cuthbert,numpyro,pymc,zarr]' pytest
	touch $@

test-newest-%: .venv-newest-%/.installed
	.venv-newest-$*/bin/python -m pip check
	.venv-newest-$*/bin/python -m pip list | grep -iE '^(arviz|jax|numpy|numpyro|pymc|xarray|zarr) '
	OPENBLAS_NUM_THREADS=1 .venv-newest-$*/bin/python -m pytest -q -m "not full" \
		$(CORE_TESTS) tests/adapters

test-newest: $(PYTHONS:%=test-newest-%)

$(DOCS): $(DEVELOPMENT)
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[docs]'
	touch $@

# The style and the fonts of formulas, from the package registry of Node.js.
$(KATEX):
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent katex@$(KATEX_VERSION) && tar xzf katex-$(KATEX_VERSION).tgz \
		&& cp -r package/dist/katex.min.css package/dist/fonts package/LICENSE . \
		&& rm -r package katex-$(KATEX_VERSION).tgz

# Warnings are errors. Pages are not run again unless their code or that of the library changed.
docs: $(DOCS) $(KATEX)
	$(BIN)/sphinx-build --jobs 2 --fail-on-warning --keep-going docs docs/_build/html

# The wheel and the source archive of a release.
dist: $(DEVELOPMENT)
	$(BIN)/python $(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

bench: $(DEVELOPMENT)
	$(BIN)/python benchmarks/run.py speed

clean:
	rm -rf dist $(VENV) $(LOWEST) .venv-newest-* .venv-particles* aide-demo benchmarks/build benchmarks/results docs/_build
