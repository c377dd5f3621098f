# The two commands of the README are `make run` and `make test`; each does all its own set-up on a Debian machine as
# root. Everything runs in emulated guests but `make run HOST=1`, which schedules this machine.

SETUP   = vm/setup.sh
BIN     = $(CURDIR)/target/release/scx_soft_domain
MACHINE = 8
KERNEL  =
FUZZ_SECONDS = 60
GUEST   = vm/run $(if $(KERNEL),--kernel $(KERNEL)) --machine $(MACHINE) --env BIN=$(BIN)

# Scenarios that count; those that compare times, and the long forms, are in `make scenarios`: they want a quiet machine.
# `placement` is there too for now: on a busy host a home moves in some runs (stolen time makes clients look long-running).
COUNTED = smt churn calls gauntlet

.PHONY: help run test lint unit guest-test scenarios compare sim-check matrix bench fuzz vm-shell setup build

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: ## a fleet of valkey servers in a guest, beside the kernel's default scheduler (HOST=1 ARGS='...': this machine)
ifeq ($(HOST),1)
	@$(SETUP) build
	cargo build --release --quiet
	exec $(BIN) $(ARGS)
else
	@$(SETUP) build guest loads kernel
	cargo build --release --quiet
	$(GUEST) --timeout 230 -- bash $(CURDIR)/vm/scenarios/fleet.sh
endif

test: setup lint unit guest-test ## format, clippy, unit, property and guest tests

setup:
	@$(SETUP) build guest loads kernel kernel 7.3

lint: ## formatting and clippy, warnings are errors
	cargo fmt --check
	cargo clippy --quiet --all-targets -- -D warnings

unit:
	cargo test --quiet

build:
	cargo build --release --quiet

guest-test: build
	BIN=$(BIN) vm/test $(COUNTED)

scenarios: setup build ## all scenarios in guests (ARGS=--full: the long forms; ARGS='soft fair': some)
	BIN=$(BIN) vm/test $(ARGS)

compare: ## the service and latency figures beside the kernel's default and its peers (ARGS='--short', '--rounds 3')
	@$(SETUP) build guest loads peers kernel $(KERNEL)
	cargo build --release --quiet
	BIN=$(BIN) vm/compare $(if $(KERNEL),--kernel $(KERNEL)) $(ARGS)

sim-check: ## the simulator beside guests: placement, moves, order of the policies (ARGS='--rounds 1': see vm/sim-check)
	@$(SETUP) build guest loads kernel $(KERNEL)
	cargo build --release --quiet
	BIN=$(BIN) vm/sim-check $(if $(KERNEL),--kernel $(KERNEL)) $(ARGS)

matrix: ## kernels x machines x loads in guests, hours; goes on where it stopped (ARGS='--short', '--machines 8,16')
	@$(SETUP) build guest loads kernel kernel 6.16 kernel 7.0 kernel 7.3
	cargo build --release --quiet
	BIN=$(BIN) vm/matrix $(ARGS)

bench: ## policy: time and instructions per event (benches/script/mod.rs says what one is); simulator: events/s
	@$(SETUP) build bench
	@cargo bench --quiet --bench policy -- --quiet --noplot 2>/dev/null
	@cargo bench --quiet --bench instructions

fuzz: ## fuzz what reads foreign input, FUZZ_SECONDS=60 for each target (FUZZ='workload': some)
	@$(SETUP) build fuzz
	fuzz/run $(FUZZ_SECONDS) $(FUZZ)

vm-shell: ## a shell in a guest of 8 CPUs
	@$(SETUP) build guest loads kernel
	vm/shell
