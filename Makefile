# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Needs: Python 3.11+, a Rust toolchain (rustup), a C linker. Everything else is installed into this folder.

PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .tools/bin/uv
ENGINE := rust/target/release/enginewright-engine
TARGET ?= targets/smollm2-135m.cpu.toml

.PHONY: help setup demo test lint rust-test python-test exploits bench clean

help:
	@echo "make setup   .venv/bin/enginewright and the host program, ready to use"
	@echo "make demo    set-up, then build a verified engine for $(TARGET)"
	@echo "make test    lint, types, Rust tests, Python tests"
	@echo "make exploits every cheat that is known, against the judge"
	@echo "make bench   side by side with llama.cpp and onnxruntime (see benchmarks/README.md)"

setup: .venv/.ready $(ENGINE)
	@.venv/bin/enginewright --version

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11"; echo "hint: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 5; }
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet uv==$(UV_VERSION)

.venv/.ready: pyproject.toml uv.lock | $(UV)
	UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --frozen --quiet --python $(PYTHON)
	@touch $@

.venv/.cuda: .venv/.ready
	UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --frozen --quiet --python $(PYTHON) --group cuda
	@touch $@

$(ENGINE): FORCE
	@command -v cargo >/dev/null || \
		{ echo "error: no cargo on PATH"; echo "hint: install Rust from https://rustup.rs, then run make again"; exit 5; }
	cargo build --manifest-path rust/Cargo.toml --release --locked --quiet

FORCE:

demo: setup
	.venv/bin/enginewright build $(TARGET)

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	cargo fmt --manifest-path rust/Cargo.toml --all --check
	cargo clippy --manifest-path rust/Cargo.toml --release --locked --all-targets --quiet
	.venv/bin/python -m enginewright.plan.lint_kernels

rust-test: setup
	cargo test --manifest-path rust/Cargo.toml --release --locked --quiet

python-test: setup .venv/.cuda
	.venv/bin/pytest

test: lint rust-test python-test

exploits: setup
	.venv/bin/pytest tests/evaluation/exploits tests/evaluation/test_sandbox.py tests/kernels/test_negative_controls.py

bench: setup
	.venv/bin/python benchmarks/run.py

clean:
	rm -rf .venv .tools rust/target
