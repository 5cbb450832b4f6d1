# The commands of the README; each is one line of cargo or a script.
.PHONY: test demo fmt docs bench

test:
	./tests/run

demo:
	cargo run --release -- demo

fmt:
	cargo fmt

docs:
	UPDATE=1 cargo test --release --test runtime fresh

bench:
	cargo bench
