# SPDX-License-Identifier: Apache-2.0
# The front door. meson builds everything into build/; what runs make goes to out/.
# Variables given (DESTDIR, TIME, ONLY, QUICK) reach what is run by themselves.
PREFIX ?= /usr/local

build: build/build.ninja ## build everything (the default)
	@ninja -C build

build/build.ninja:
	@mkdir -p build
	@meson setup build --prefix='$(PREFIX)' >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

setup: ## install what is missing (Debian packages)
	@scripts/setup

demo: ## three programs share one GPU: see it, and see what each got
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@scripts/demo

demo-remote: ## a program uses the GPU of another machine: two network namespaces on this one
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@scripts/demo-remote

demo-kubernetes: ## a cluster of one node with simulated GPUs that runs deploy/examples; ONCE=1: ends by itself
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@tests/k8s/get >/dev/null
	@tests/k8s/demo $(if $(ONCE),--once)

check: ## run all tests
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory kubernetes
	@tests/toolkit/get >/dev/null || [ $$? -eq 77 ]
	@scripts/check build

# Where one cannot be had, or another cluster is given, its tests say so themselves. KUBERNETES in the environment: these alone.
kubernetes: ## build the newest and the oldest Kubernetes for the tests, and programs that run on it: once, 50 minutes
	@[ -n "$$KUBECONFIG" ] || for one in $${KUBERNETES-$$(tests/k8s/get --list)}; do \
		tests/k8s/get $$one >/dev/null || [ $$? -eq 77 ] || exit 1; \
	done

programs: build ## run other people's programs on the simulated GPU: fetches them; ONLY=numba,taichi for some, QUICK=1 for parts
	@tests/third-party/run --write

bench: build ## print every number, ONLY=launch,shares for some
	@scripts/bench

reproduce: ## run the experiments of the systems before divvy; ONLY=K4,G5 for some, QUICK=1 for short ones
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@! reproduce/run.py --needs-kubernetes 2>/dev/null || tests/k8s/get >/dev/null || [ $$? -eq 77 ]
	@reproduce/run.py

fuzz: ## every fuzz target for TIME=60 seconds
	@scripts/fuzz

lint: ## format, layers, words, prose, picture, shell, python, spelling, commits, static analysis, clang
	@scripts/lint

format: ## put the format of all C and Python files right
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i
	@scripts/check-python --write

soak: build ## what takes long: soaks, storms, long fuzzing
	@scripts/soak

install: build ## into DESTDIR, under PREFIX=/usr/local
	@meson configure build -Dprefix='$(PREFIX)'
	@meson install -C build --quiet

deb: ## Debian packages of the current commit, in out/deb
	@scripts/setup
	@scripts/deb

artefacts: ## images, chart, bills of materials and checksums of the packages in out/deb, in out/release
	@scripts/setup
	@[ -e out/deb/build.log ] || scripts/deb
	@release/artefacts

release: ## a release of the current commit: VERSION=0.2.0; SKIP_CI=1 to try, without a tag
	@scripts/setup
	@release/release '$(VERSION)'

clean: ## remove what was built and made
	rm -rf build build-asan build-tsan build-fuzz out

.PHONY: build help setup demo demo-remote demo-kubernetes check kubernetes programs bench reproduce fuzz lint format soak install deb artefacts release clean
