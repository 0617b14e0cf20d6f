# Two commands for a machine with Python >= 3.11 and make: `make sweep` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
CUBE := cubes/scaling-and-reliability

.PHONY: sweep test quick check types bench docs attack fuzz validate clean

sweep: .venv/installed
	@mkdir -p cubes
	@$(BIN)/fleetcube run examples/scaling-and-reliability.toml -o $(CUBE).zarr --overwrite
	@echo; echo "Llama 3 70B, InfiniBand NDR, tensor parallel 8, 50,000 h per GPU, 100 GB/s of checkpoint storage:"
	@$(BIN)/fleetcube slice $(CUBE).zarr fabric=infiniband-ndr layout=pp1 gpu_mttf=50000h \
		checkpoint_write_bandwidth=100GB/s -v job_time -v communication_overhead \
		-v reliability_overhead -v reliability_to_communication_ratio
	@rm -f $(CUBE).png
	@$(BIN)/fleetcube plot $(CUBE).zarr -v reliability_to_communication_ratio -x n_gpus -y gpu_mttf \
		fabric=infiniband-ndr layout=pp1 checkpoint_write_bandwidth=100GB/s -o $(CUBE).png

test: .venv/test
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# What ends in half a minute; with NAME=quantity, its formulas on every engine and their derivatives, too
quick: .venv/test
	@$(BIN)/python -m pytest -q -n0 tests/test_architecture.py tests/kernels/test_graph.py \
		tests/kernels/test_docstrings.py tests/kernels/test_sources.py
	@[ -z "$(NAME)" ] || $(BIN)/python -m pytest -q -n0 --only "$(NAME)" \
		tests/kernels/test_partials.py tests/kernels/test_engines.py::test_formulas_agree_with_numpy \
		tests/kernels/test_engines.py::test_binding_to_numpy_changes_nothing

check: .venv/dev types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/test
	$(BIN)/python -m benchmarks --write

# The site: build/docs/index.html. Warnings are errors; nothing is fetched.
docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs

validate: .venv/test
	@$(BIN)/fleetcube validate
	@$(BIN)/python -m tests.accuracy --write

# Kills, changed bits, reads beside writers, hostile files: the table of docs/storage.md. An hour
attack: .venv/test
	$(BIN)/python -m tests.attack --write

# The tests that draw examples, with fresh ones by the thousand; the same SEED draws the same again
fuzz: SEED := $(or $(SEED),$(shell date +%s))
fuzz: .venv/test
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

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --upgrade pip

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[plot]'
	@touch $@

.venv/test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[all,test]'
	@touch $@ .venv/installed

.venv/dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $@ .venv/test .venv/installed

.venv/docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -qq -e '.[docs]'
	@touch $@ .venv/installed

clean:
	rm -rf .venv build cubes docs/reference *.egg-info
