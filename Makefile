# Each target sets itself up on a machine with nothing but Python (3.11 or newer) and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MINIMUMS := .venv-minimums
CORE_TESTS := tests/cli/test_help.py tests/cli/test_commands.py tests/_base tests/transition \
	tests/datasets/own tests/classifier/test_model_files.py
EXTRA_TESTS := tests/annotation/test_answers.py tests/annotation/test_postgres.py \
	tests/annotation/test_server.py tests/annotation/test_run.py tests/annotation/test_store.py \
	tests/classifier/test_boosting.py tests/workflows/test_export.py tests/test_ray.py
DIST_TESTS := $(CORE_TESTS) tests/test_package.py tests/compatibility
# Tests start many interpreters, each of which would compile naysay again.
unexport PYTHONDONTWRITEBYTECODE

PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-minimums lint types layers unit fix docs dist test-dist sbom workflows \
	bench gpubench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

demo: $(VENV)/installed ## the whole idea in under a minute: a table and a page
	$(BIN)/naysay demo

test: lint layers ## everything CI checks
	$(MAKE) --jobs=2 types unit # basedpyright works while tests wait

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-test
	$(BIN)/basedpyright

layers: $(VENV)/installed-test
	$(BIN)/lint-imports

unit: $(VENV)/installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=97

# The extra "text" needs transformers, which needs newer versions of the others than naysay does.
test-minimums: ## tests with the oldest versions that are allowed, of extras too, but for torch
	$(PYTHON) -m venv $(MINIMUMS)
	sed -nE 's/^.*"([a-z0-9-]+)(\[[a-z]+\])?>=([0-9.]+)".*$$/\1==\3/p' pyproject.toml \
		| grep -v '^torch==' | sort -u > $(MINIMUMS)/constraints.txt
	grep '^torch==' constraints.txt >> $(MINIMUMS)/constraints.txt
	$(MINIMUMS)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c $(MINIMUMS)/constraints.txt -e '.[annotate,boosting,excel,export,ray]' \
		httpx hypothesis onnxruntime pandas polars psutil pytest pytest-xdist
	$(MINIMUMS)/bin/python -m pytest -W default $(CORE_TESTS) $(EXTRA_TESTS)

fix: $(VENV)/installed-test ## format and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/installed-docs ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# A new environment outside of this folder, $$apart, with the wheel and nothing else; removed at the end.
APART   = set -e; apart=$$(mktemp -d); trap 'rm -rf "$$apart"' EXIT; \
	$(PYTHON) -m venv "$$apart/venv"; apart_pip="$$apart/venv/bin/python -m pip install --quiet \
	--disable-pip-version-check -c $(CURDIR)/constraints.txt"; $$apart_pip dist/*.whl

dist: $(VENV)/installed-release ## the source distribution and the wheel, in dist/
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

test-dist: dist ## install the wheel in a new environment, without this folder, and test it
	$(APART); mkdir "$$apart/source"; tar -xzf dist/*.tar.gz --strip-components 1 -C "$$apart/source"; \
	cd "$$apart"; venv/bin/naysay --version; venv/bin/python -m naysay --help > help.txt; \
	venv/bin/naysay demo; test -s naysay-demo.html; rm -r source/src; cd source; \
	$$apart_pip "$$(ls $(CURDIR)/dist/*.whl)[annotate,excel]" pytest hypothesis pandas polars; \
	"$$apart/venv/bin/python" -m pytest $(DIST_TESTS)

sbom: dist ## the software bill of materials of the wheel and what it installs, in sbom/
	mkdir -p sbom; $(APART); version=$$(echo dist/*.whl | cut -d - -f 2); \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > "$$apart/pyproject.toml"; \
	$(BIN)/cyclonedx-py environment --pyproject "$$apart/pyproject.toml" --mc-type library \
		--output-reproducible -o sbom/naysay.cdx.json "$$apart/venv"

workflows: $(VENV)/installed-release ## check the workflows of GitHub
	$(BIN)/zizmor --offline --quiet .github

bench: $(VENV)/installed-test ## timings and the demo over 5 seeds, recorded in benchmarks/results
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_demo.py
	$(BIN)/python benchmarks/bench_tables.py
	$(BIN)/python benchmarks/bench_data.py
	$(BIN)/python benchmarks/bench_statistics.py
	$(BIN)/python benchmarks/bench_ensemble.py
	$(BIN)/python benchmarks/bench_threads.py
	$(BIN)/python benchmarks/bench_annotators.py
	$(BIN)/python benchmarks/bench_damages.py

gpubench: $(VENV)/installed-test ## timings on a GPU; DATA=folder of pendigits, MNIST and CIFAR-10
	$(BIN)/python benchmarks/gpu_training.py
	$(BIN)/python benchmarks/bench_ensemble.py --device cuda --data-dir $(DATA)
	$(BIN)/python benchmarks/gpu_profile.py --compile
	$(BIN)/python benchmarks/gpu_cifar.py $(DATA)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(MINIMUMS) site dist sbom .pytest_cache .ruff_cache .import_linter_cache .coverage

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-release: constraints.txt | $(VENV)/bin/python
	$(PIP) build cyclonedx-bom twine zizmor
	@touch $@

$(VENV)/installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/installed
