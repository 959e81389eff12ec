# Two commands are all a newcomer needs: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

TRAIN = $(BIN)/cody train --patience 3

FEATURES = import numpy._core._multiarray_umath as n; print(*(f for f in n.__cpu_dispatch__ if n.__cpu_features__[f]))

QUICK = tests/test_contract.py tests/test_errors.py tests/explaining/test_explain.py tests/graph tests/search tests/utils \
	tests/study/test_explainers.py tests/engine/test_fast.py tests/engine/test_imagined.py tests/engine/test_weights.py \
	src/cody/graph src/cody/search

.PHONY: demo test quick list-quick processor check docs package oldest mutate attack models explainers reproduce bench clean

demo: .venv/installed  ## install into .venv, then show what CoDy does
	@$(BIN)/cody demo

test: check  ## everything that must hold, on up to four processors
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

quick: .venv/installed-dev  ## what takes less than a minute
	CODY_EXAMPLES=20 $(BIN)/python -m pytest $(QUICK)

processor: .venv/installed-dev  ## the tests with the arithmetic of an older processor, which rounds sums differently
	OPENBLAS_CORETYPE=Prescott ATEN_CPU_CAPABILITY=default \
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(FEATURES)')" $(BIN)/python -m pytest $(TESTS)

list-quick:  # for scripts: the files of `make quick`
	@echo $(QUICK)

docs: .venv/installed-docs  ## the documentation site, in docs/_build/html; every warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The site is at docs/_build/html/index.html"

package:  ## build both distributions, install each into a fresh environment, and try it
	PYTHON=$(PYTHON) .ci/package

oldest:  ## the quick tests with the oldest versions of the dependencies that are allowed; OLDEST=--all: of torch, too
	PYTHON=$(PYTHON) .ci/oldest $(OLDEST)

mutate: .venv/installed-dev  ## break searches, engine, explanations and studies on purpose, and count what the tests notice; MUTATE="--only masks"
	PYTHONPATH=tests $(BIN)/python -m mutate $(MUTATE)

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

attack: .venv/installed-dev  ## ten minutes of new random cases that try to break what is promised; ATTACK="--minutes 2 --only files"
	PYTHONPATH=tests $(BIN)/python -m attack $(ATTACK)

bench: .venv/installed-dev  ## side-by-side measurements
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/training.py
	$(BIN)/python bench/graph_scale.py

models: .venv/installed-dev  ## train the shipped models and those of the paper's sizes anew (hours; rerun to resume)
	$(TRAIN) --data collegemsg --model tgn --epochs 20 --out runs/tgn-collegemsg
	$(TRAIN) --data collegemsg --model tgat --epochs 20 --out runs/tgat-collegemsg
	$(TRAIN) --preset paper --data uci-messages --model tgn --epochs 8 --out runs/tgn-uci-messages
	$(TRAIN) --preset paper --data uci-messages --model tgat --epochs 10 --out runs/tgat-uci-messages
	$(TRAIN) --preset paper --data uci-forums --model tgn --epochs 12 --out runs/tgn-uci-forums
	$(TRAIN) --preset paper --data uci-forums --model tgat --epochs 10 --out runs/tgat-uci-forums
	$(TRAIN) --preset paper --data wikipedia --model tgn --epochs 2 --out runs/tgn-wikipedia
	$(TRAIN) --preset paper --data wikipedia --model tgat --epochs 2 --out runs/tgat-wikipedia

explainers: .venv/installed-dev  ## train the shipped explainers anew (minutes)
	rm -rf src/cody/baselines/shipped
	for model in tgn-collegemsg tgat-collegemsg; do \
		$(BIN)/cody train-explainer --model $$model --out src/cody/baselines/shipped/$$model || exit 1; \
		$(BIN)/cody train-explainer --explainer tempme --links 300 --epochs 15 --model $$model \
			--out src/cody/baselines/shipped/$$model || exit 1; \
	done

reproduce: .venv/installed-dev  ## the paper's comparison, after `make models` (hours; rerun to resume)
	bash reproduce/reproduce.sh

# What an installation is made from: it is done again when one of them changes.
INSTALLED_FROM := .venv/python pyproject.toml setup.py constraints.txt $(wildcard src/cody/engine/*.[ch])

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit("CoDy needs Python 3.11 or later; this is %d.%d. Try: make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: $(INSTALLED_FROM)
	@echo "Installing CoDy into .venv ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: $(INSTALLED_FROM)
	@echo "Installing CoDy and what its tests need into .venv ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps torch-geometric-temporal==0.56.2  # it asks for what must be compiled
	@touch $@ .venv/installed

.venv/installed-docs: $(INSTALLED_FROM)
	@echo "Installing CoDy and what its documentation needs into .venv ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@ .venv/installed

clean:
	rm -rf .venv build dist docs/_build *.egg-info src/*.egg-info src/cody/engine/follow.*.so
