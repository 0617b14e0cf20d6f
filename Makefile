# Two commands for a machine with Python >= 3.11 and make: `make sweep` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CUBE := cubes/scaling-and-reliability

# Without bytecode on disk every process of a test compiles all that it imports
unexport PYTHONDONTWRITEBYTECODE
# Compilers leave as many half-empty arenas as there are threads: a process of tests took 1.7 GB for 1.5
export MALLOC_ARENA_MAX = 2

.PHONY: sweep test test-all quick machines versions oldest check types bench pages docs attack fuzz validate clean

sweep: $(VENV)/installed
	@mkdir -p cubes
	@$(BIN)/fleetcube run examples/scaling-and-reliability.toml -o $(CUBE).zarr --overwrite
	@echo; echo "Llama 3 70B, InfiniBand NDR, tensor parallel 8, 50,000 h per GPU, 100 GB/s of checkpoint storage:"
	@$(BIN)/fleetcube slice $(CUBE).zarr fabric=infiniband-ndr layout=pp1 gpu_mttf=50000h \
		checkpoint_write_bandwidth=100GB/s -v job_time -v communication_overhead \
		-v reliability_overhead -v reliability_to_communication_ratio
	@rm -f $(CUBE).png
	@$(BIN)/fleetcube plot $(CUBE).zarr -v reliability_to_communication_ratio -x n_gpus -y gpu_mttf \
		fabric=infiniband-ndr layout=pp1 checkpoint_write_bandwidth=100GB/s -o $(CUBE).png

test: $(VENV)/test
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 8 --dist worksteal

# Those and the slow ones, collected once, without a core that idles between: CI's
test-all: $(VENV)/test
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# What ends in ten seconds; with NAME=quantity, its formulas on every engine and their derivatives, too
quick: $(VENV)/test
	@$(BIN)/python -m pytest -q -n0 tests/test_architecture.py tests/kernels/test_graph.py \
		tests/kernels/test_docstrings.py tests/kernels/test_sources.py
	@[ -z "$(NAME)" ] || $(BIN)/python -m pytest -q -n0 --only "$(NAME)" \
		tests/kernels/test_partials.py tests/kernels/test_engines.py::test_formulas_agree_with_numpy \
		tests/kernels/test_engines.py::test_binding_to_numpy_changes_last_bits_alone

# The tests on other kinds of CPU, from a service's script (tests/machines.py): some minutes a kind.
# KINDS="haswell mixed" names kinds, PART="-m machine" or PART=tests/grid a part of the tests
machines: $(VENV)/test
	@$(BIN)/python -m tests.machines $(KINDS) -- -q -n auto --maxprocesses 8 --dist worksteal $(PART)

# Every test, with the newest releases on each Python that is there (in PATH, pyenv's folder or uv's), and
# with the oldest. An hour on two cores; goes on after a failure
versions:
	@failed=; for version in 3.11 3.12 3.13 3.14; do \
		for python in python$$version $(HOME)/.pyenv/versions/$$version.*/bin/python \
				$(HOME)/.local/share/uv/python/cpython-$$version.*/bin/python; do \
			$$python -c "" 2>/dev/null || continue; \
			echo "Python $$version"; \
			rm -f .venv-$$version/test; \
			PIP_UPGRADE=1 PIP_UPGRADE_STRATEGY=eager \
				$(MAKE) test-all VENV=.venv-$$version PYTHON=$$python || failed="$$failed $$version"; \
			break; \
		done; \
	done; \
	$(MAKE) oldest || failed="$$failed oldest"; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

oldest:
	@mkdir -p build
	@.ci/oldest >build/oldest.txt
	@PIP_CONSTRAINT=build/oldest.txt $(MAKE) test-all VENV=.venv-oldest

check: $(VENV)/dev types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

bench: $(VENV)/test
	$(BIN)/python -m benchmarks --write

# What is generated in the README and the pages: tables, counts, what blocks print. Some minutes
pages: $(VENV)/test
	$(BIN)/python -m docs.make

# The site: build/docs/index.html. Warnings are errors; nothing is fetched.
docs: $(VENV)/docs
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs

validate: $(VENV)/test
	@$(BIN)/fleetcube validate
	@$(BIN)/python -m docs.make docs/accuracy.md

# Kills, changed bits, reads beside writers, hostile files: the table of docs/security.md. An hour
attack: $(VENV)/test
	$(BIN)/python -m tests.attack --write && $(BIN)/python -m docs.make docs/security.md

# The tests that draw examples, with fresh ones by the thousand; the same SEED draws the same again
fuzz: SEED := $(or $(SEED),$(shell date +%s))
fuzz: $(VENV)/test
	@echo 'make fuzz SEED=$(SEED)'
	@FLEETCUBE_FUZZ=$(SEED) $(BIN)/python -m pytest -m "hypothesis or fuzz" -n auto --maxprocesses 8 \
		--dist worksteal --hypothesis-seed=$(SEED) --randomly-seed=$(SEED) \
		|| { echo 'again: make fuzz SEED=$(SEED)'; exit 1; }

# Type checkers see the package as it is installed
types:
	@mkdir -p build/types/fleetcube
	@ln -sfn $(CURDIR)/kernels build/types/fleetcube/kernels
	@ln -sfn $(CURDIR)/grid build/types/fleetcube/grid
	@ln -sfn $(CURDIR)/catalog build/types/fleetcube/catalog
	@for file in src/fleetcube/*; do ln -sfn $(CURDIR)/$$file build/types/fleetcube/; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[plot]'
	@touch $@

$(VENV)/test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[all,test]'
	@touch $@ $(VENV)/installed

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $@ $(VENV)/test $(VENV)/installed

$(VENV)/docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[docs]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf .venv .venv-* build cubes docs/reference *.egg-info
