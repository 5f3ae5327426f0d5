# SPDX-License-Identifier: Apache-2.0
# The front door. Everything is built by meson into build/; what runs make goes to out/.
PREFIX ?= /usr/local
DESTDIR ?=
TIME ?= 60
ONLY ?=
export DESTDIR PREFIX TIME ONLY

build: build/build.ninja
	@ninja -C build

build/build.ninja:
	@meson setup build --prefix='$(PREFIX)' >/dev/null || { cat build/meson-logs/meson-log.txt; exit 1; }

help:
	@sed 's/^\t//' scripts/help.txt

setup:
	@scripts/setup

demo: setup build
	@scripts/demo

check: setup build
	@scripts/check

bench: build
	@scripts/bench

fuzz:
	@scripts/fuzz

lint:
	@scripts/lint

soak: build
	@scripts/soak

install: build
	@meson configure build -Dprefix='$(PREFIX)' && meson install -C build --quiet

clean:
	rm -rf build build-* out

.PHONY: build help setup demo check bench fuzz lint soak install clean
