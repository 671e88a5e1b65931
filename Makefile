.DEFAULT_GOAL := help
.PHONY: help bootstrap languages policies demo test soak lint bench

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bootstrap: ## install what is missing: a compiler for WebAssembly; PostgreSQL and a pooling proxy for the tests
	@.ci/bootstrap

languages: ## build the example policies in other languages than Rust, with their tools
	@.ci/bootstrap languages
	cargo build --locked
	@.ci/components

policies: bootstrap ## build the policies into target/policies/NAME.wasm, and the host that embeds them
	cargo build --locked

demo: bootstrap ## the whole story on an embedded store, in about a minute once built
	cargo run --locked -q -- demo

test: languages ## every test, on SQLite and on PostgreSQL
	cargo test --locked

soak: bootstrap ## what takes minutes, beyond the tests: hosts that are killed again and again, simulated histories
	@.ci/soak

lint: ## formatting, clippy and rustdoc, with warnings as errors
	@.ci/lint

bench: bootstrap ## what recovery costs, each figure beside what it is measured against, in some twenty minutes
	cargo run --locked --release --manifest-path tests/bench/Cargo.toml
