# Every target works on a fresh clone with Node.js 24 and npm. On Linux x64 with glibc any Node.js from version 20 on will do:
# npm brings the newer one that everything below then uses.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

installed := node_modules/.installed
node_is_new := Number(process.versions.node.split(".")[0]) >= 24
npm_brings_node := process.platform === "linux" && process.arch === "x64" && process.report.getReport().header.glibcVersionRuntime

.PHONY: setup build demo test test-long soak lint bench bench-long package clean \
  build-metal-agent install-metal-agent uninstall-metal-agent install-powermetrics-sudo uninstall-powermetrics-sudo

setup: $(installed)
	@node tasks/setup/main.ts

build: $(installed)
	@npm run --silent build

demo: $(installed)
	@npm run --silent build:window -- --logLevel error && node demo/main.ts

test: $(installed)
	@npm run --silent test

# Storms: the same, many rounds of it. About ten minutes.
test-long: $(installed)
	@npm run --silent test long

# FAULTS=1000 SEED=7, or REPLAY=file; PATHS=100000 asks the gateway's doors for paths that were made up instead
soak: $(installed)
	@node tasks/setup/main.ts && \
	  $(if $(PATHS),FORGED_PATHS=$(PATHS) npx vitest run --project unit test/unit/gateway -t 'that were made up',node test/soak/main.ts)

lint: $(installed)
	@npm run --silent lint

bench: $(installed)
	@node tasks/setup/main.ts && node bench/main.ts

bench-long: $(installed)
	@node tasks/setup/main.ts && node bench/main.ts --long

# What people install, as far as this machine can build it, in out/package.
package: $(installed)
	@node tasks/package/main.ts

# The targets of LLMKube's guide, by the verbs of this agent: a service of launchd, and sudo's rule for powermetrics.
# FLAGS='--namespace team-a' are flags of the agent; models and settings stay where it is removed.
METAL_AGENT := out/command/metal-agent

build-metal-agent: $(installed)
	@mkdir -p $(dir $(METAL_AGENT)) && node tasks/package/build-command.ts $(METAL_AGENT)
	@[ "$$(uname)" != Darwin ] || codesign --sign - --force $(METAL_AGENT)
	@ln -sf metal-agent $(dir $(METAL_AGENT))llmkube-metal-agent && echo '$(METAL_AGENT) is built.'

install-metal-agent: build-metal-agent
	@$(METAL_AGENT) install -- $(FLAGS)

uninstall-metal-agent: build-metal-agent
	@$(METAL_AGENT) uninstall --yes

install-powermetrics-sudo: build-metal-agent
	@$(METAL_AGENT) power install

uninstall-powermetrics-sudo: build-metal-agent
	@$(METAL_AGENT) power remove

# What was built from here; not node_modules, and not the parts in the cache that other clones use too.
clean:
	@rm -rf out dist coverage

$(installed): package-lock.json
	@command -v npm >/dev/null || { echo 'npm is missing: install Node.js 24 from https://nodejs.org/en/download' >&2; exit 1; }
	@node -e '$(node_is_new) || $(npm_brings_node) || process.exit(1)' || \
	  { echo "Node.js 24 or newer is needed and this is $$(node --version): get it from https://nodejs.org/en/download" >&2; exit 1; }
	@echo 'npm ci …'
	@PATH="$${PATH#*:}" node -e '$(node_is_new) || process.exit(1)'; own=$$?; npm ci --loglevel error && { [ $$own != 0 ] || rm -f node_modules/.bin/node; }
	@touch $@
