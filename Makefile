# SPDX-License-Identifier: Apache-2.0
# A thin front door: Meson is the build (meson.build), scripts/ does the work.
#
#   make          sets up what is missing and builds into build/
#   make demo     profiles a real program and shows its report
#   make check    tests in five minutes; ends with 'N passed, N failed, N skipped'
#   make check-all  runs every test: sanitizers, fuzzers, the browser, foreign run times, packages
#   make fuzz     runs every fuzzer for a minute (FUZZ_SECONDS=600), see docs/robustness.md
#   make install  installs what was built (prefix=/usr/local, DESTDIR=)
#   make uninstall  removes what make install has installed (the same prefix and DESTDIR)
#   make deb      builds Debian packages into build-deb/, see docs/packages.md
#   make dist      builds a file for servers into build-dist/, see docs/containers.md
#   make bench    measures against other profilers, writes docs/performance.md and bench/aims.md
#   make clean    removes what was built

prefix ?= /usr/local
DESTDIR ?=

.PHONY: all build demo check check-all fuzz install uninstall deb dist bench clean

all: build

build:
	@scripts/install-deps build
	@scripts/build build

demo:
	@scripts/install-deps demo
	@scripts/build build
	@scripts/demo

check:
	@scripts/install-deps check
	@scripts/check

check-all:
	@scripts/install-deps test
	@scripts/check-all

fuzz:
	@scripts/install-deps test
	@scripts/fuzz

install:
	@scripts/install "$(prefix)" "$(DESTDIR)"

uninstall:
	@scripts/uninstall "$(prefix)" "$(DESTDIR)"

deb:
	@scripts/install-deps deb
	@scripts/deb

dist:
	@scripts/install-deps dist
	@scripts/dist build
	@[ ! -e sysroot-aarch64/usr/include/dwarf.h ] || scripts/dist build-aarch64

bench:
	@scripts/install-deps bench
	@scripts/build build
	@bench/run.py

clean:
	rm -rf build build-sanitize build-fuzz build-aarch64 build-deb build-dist
