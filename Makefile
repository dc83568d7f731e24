# SPDX-License-Identifier: Apache-2.0
# What a person types. Each target sets up what it needs by itself; the work is done by the scripts in tools/.
.PHONY: help setup build demo test soak bench check format install dist clean

help:
	@echo 'make demo     set up, build, and train real digits on two ranks'
	@echo 'make test     set up, build, and run the tests (set-up apart, under 30 minutes on two cores)'
	@echo 'make build    build/release/bin/lockstep'
	@echo 'make setup    only install what is missing: Debian packages (as root) and LibTorch'
	@echo 'make install  into PREFIX (/usr/local)'
	@echo 'make dist     dist/: lockstep as one file for any Linux, a wheel, and a source bundle'
	@echo 'make check    format, tidy, layers, folders, budgets, headers, docs, words'
	@echo 'make format   put every source into the agreed format'
	@echo 'make soak     the long counts, all sanitizers, other LibTorch versions; writes docs/measured/soak.md (hours)'
	@echo 'make bench    the benchmarks; writes bench/RESULTS.md'
	@echo 'make clean    remove build/'
	@echo
	@echo 'LOCKSTEP_TORCH   the torch folder to build against (else CMAKE_PREFIX_PATH, the active Python, a private venv)'
	@echo 'LOCKSTEP_DEVICE  cpu, cuda or rocm, instead of what this machine has'
	@echo 'LOCKSTEP_CACHE   where venvs and caches lie (~/.cache/lockstep)'
	@echo 'LOCKSTEP_TEST_PEERS  1: `make test` fetches Python'"'"'s PyTorch too (5.5 GB on disk) and tests against it'
	@echo 'LOCKSTEP_JOBS    compilations at once (every core, fewer where memory is small)'

setup:
	@tools/setup build

build: setup
	@tools/build release lockstep lockstep-train

demo: build
	@tools/demo

test:
	@tools/setup test
	@tools/test

soak:
	@tools/setup bench
	@tools/soak

bench:
	@tools/setup bench
	@tools/bench

check:
	@tools/setup check
	@tools/check

format:
	@tools/setup check
	@tools/check --fix-format

install: setup
	@tools/build release
	@cmake --install build/release --prefix "$(or $(PREFIX),/usr/local)"

dist:
	@tools/setup build
	@tools/dist

clean:
	@rm -rf build
