# The commands of the README; each is one line of cargo or a script.
.PHONY: test test-cluster demo fmt docs bench fuzz

test:
	./tests/run

# The chart on a real API server; minutes the first time, which builds it.
test-cluster:
	./tests/cluster/run

demo:
	cargo run --release -- demo

fmt:
	cargo fmt

docs:
	UPDATE=1 cargo test --release --test runtime --test deploy fresh
	UPDATE=1 cargo test --release --no-default-features --test engine docs::

bench:
	cargo bench

# Seconds for each target; `cargo install cargo-fuzz --locked` once, and a nightly toolchain. What is found stands in
# fuzz/artifacts; new inputs stay under fuzz/target. `make fuzz TARGETS=step SECONDS_EACH=600`
SECONDS_EACH ?= 60
TARGETS ?= assemble decode json layers step translate
fuzz:
	for target in $(TARGETS); do mkdir -p fuzz/target/corpus/$$target && \
	cargo +nightly fuzz run -s none $$target fuzz/target/corpus/$$target fuzz/corpus/$$target -- \
	-max_total_time=$(SECONDS_EACH) -dict=fuzz/dictionary.txt -timeout=10 || exit 1; done
