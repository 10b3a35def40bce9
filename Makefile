# Four front doors; each installs what it needs first (cmake/setup.sh), so that a bare Debian 12 machine will do.
.PHONY: build demo test fuzz bench install clean
NINJA = ninja -C build
PYTHON = build/venv/bin/python

build:
	@cmake/setup.sh system
	@cmake --preset release --log-level=WARNING >/dev/null
	@$(NINJA)

demo:
	@cmake/setup.sh system
	@cmake --preset release --log-level=WARNING >/dev/null
	@$(NINJA) coil_command digits_demo
	@build/bin/digits_demo examples/digits

test:
	@cmake/setup.sh system clang python
	@test/run.py

fuzz:
	@cmake/setup.sh system clang
	@test/run.py fuzz

bench: build
	@cmake/setup.sh python bench
	@$(PYTHON) bench/all.py

install: build
	@cmake --install build

clean:
	@if [ -f build/build.ninja ]; then $(NINJA) -t clean; fi
	@rm -rf build-debug build-fuzz
