# Every target works from a bare clone: it makes its own environment in .venv first.
PYTHON ?= python3
SECONDS ?= 60
FILE ?=
MINUTES ?=
JOBS ?= 2
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo sql-cases sql-histories test test-all slow slow-broker slow-spark spark-servers prometheus spark-tokens slow-seeds slow-seeds-changed bench fuzz verdicts seeds schedules late-end-txn planted planted-changed sim-coverage lint ci oracle clients clients-changed differential differential-users differential-tokens avro-pairs acl-decisions bench-against compare exactly-once exactly-once-java exactly-once-spark exactly-once-flink delivery kills-pipelines kills-idempotent kills-outbox kills-examples kills-sql kills-connect connectors-on-spark connect-on-kafka soak-pipelines torture chaos machines machines-soak machines-cuts change-of-sides dist release clean

help:
	@echo "make demo [SECONDS=60] [FILE=path]   events -> broker -> Spark -> topic and Parquet, then a chart"
	@echo "make test      the rules of every part, and pipelines with one target of each kind: at most 8 minutes on two cores"
	@echo "make test-all  make test, then the rest (make slow): kill -9, recovery, every target, fixed seeds"
	@echo "make spark-servers   every target of pipelines through a Spark Connect server and a standalone cluster"
	@echo "make prometheus      Prometheus with deploy/prometheus.yml (needs Debian's prometheus)"
	@echo "make lint      ruff, mypy, import contracts                 make ci      all that CI runs"
	@echo "make bench     Moldau and Apache Kafka, in one run (needs Java 17 and Maven)"
	@echo "make bench-against REV=COMMIT   an older commit and this one, in one run"
	@echo "make compare [ROUNDS=3 RECORDS=100000]   next to RabbitMQ, Redis, NATS, SQLite and Apache Kafka: at most 20 minutes (apt-get, Java, Maven)"
	@echo "make exactly-once            transactional copies through kills of copier and broker (seed printed)"
	@echo "make exactly-once-java       the same with Kafka's own copier and with Kafka Streams (Java)"
	@echo "make exactly-once-spark [RECORDS=2000000 BROKER=moldau]   Spark copies while drivers and executors die"
	@echo "make exactly-once-flink [BROKER=moldau]   Flink's Kafka connectors copy while Flink dies (Java)"
	@echo "make delivery [KILLS=100 PART=producers]   what kills lose and repeat in each program of examples/delivery (seed printed)"
	@echo "make kills-pipelines [RECORDS=1000000 BROKER=moldau TARGETS='delta topic']   a pipeline writes to every kind of target while Spark dies"
	@echo "make kills-examples [KILLS=30]   rekey, ledger and edge, with more kills than in make test-all"
	@echo "make kills-idempotent [RECORDS=50000 KILLS=50 CLIENT=aiokafka DATABASE=sqlite]   consumers, database and broker die (seed printed)"
	@echo "make kills-outbox [RECORDS=50000 KILLS=30 DATABASE=sqlite]   writers, relays, database and broker die (seed printed)"
	@echo "make sql-cases [ON=kafka|cluster]   all golden cases of streaming SQL; on Apache Kafka, on a standalone Spark cluster"
	@echo "make sql-histories [HISTORIES=2000]   tables, joins and windows in SQL next to DuckDB (seed printed)"
	@echo "make kills-sql [RECORDS=500000 KILLS=20]   instances of moldau sql serve and the broker die while queries run (seed printed)"
	@echo "make connectors-on-spark   each connector on Spark gives what its light task gives"
	@echo "make kills-connect [KILLS=10 WORKER_KILLS=5 CONNECTOR=postgresql BROKER=kafka RUNNER=spark]   tasks of connectors and their worker die in the middle of batches (seed printed)"
	@echo "make soak-pipelines [MINUTES=30]   the memory of running pipelines must not grow"
	@echo "make torture [MINUTES=15]   the broker is killed, stopped and frozen under load (seed printed)"
	@echo "make chaos [MINUTES=30]     three brokers are killed, frozen and cut off under load (seed printed; ROOT=1: namespaces, a full disk)"
	@echo "make machines    nodes on separate machines (network namespaces, for root): found by name, cut off from each other"
	@echo "make machines-soak [MINUTES=60 APART=1 KAFKA=1 PATIENT=1]   three machines under load, each restarted twice (root; seed printed)"
	@echo "make machines-cuts [ROUNDS=10 KAFKA=1]   how long producers wait while machines are cut off, with Apache Kafka (root)"
	@echo "make change-of-sides        a cluster of Apache Kafka becomes one of Moldau and goes back, under load (Java)"
	@echo "make fuzz [MINUTES=10]   make seeds [FROM=1000 TO=2000]     make oracle  tests with Apache Kafka (Java)"
	@echo "make late-end-txn   10,000 seeds of one scenario: an EndTxn that arrives late"
	@echo "make planted   runs every planted bug, about four minutes, and records the commit"
	@echo "make slow-seeds   a hundred seeds of each simulator, and records the commit; slow-seeds-changed: if one can differ"
	@echo "make planted-changed   runs the planted bugs that a change since that commit concerns (part of make ci)"
	@echo "make sim-coverage   the lines of core and shell that a hundred seeds of the simulator run"
	@echo "make verdicts [PAIRS=500 SEED=N]   the registry's answers about random pairs of JSON Schemas, proven by documents (seed printed)"
	@echo "make differential [SEQ=2000]   random request sequences to Moldau and Apache Kafka, compared (Java)"
	@echo "make differential-users [USER_SEQ=850]   the same as three users with random ACLs"
	@echo "make differential-tokens [TOKEN_SEQ=500]   their requests of delegation tokens"
	@echo "make spark-tokens [MINUTES=10 BROKER=moldau]   Spark's own connector through delegation tokens that it renews (Java)"
	@echo "make avro-pairs [PAIRS=2000]   random schemas and records, read and written by Moldau and Apache Avro (Java)"
	@echo "make acl-decisions [DECISIONS=1000000]   random ACLs and questions, decided by Moldau and by Apache Kafka's authorizer (Java)"
	@echo "make dist [EXTRAS='base columnar spark']   wheel and sdist, checked and installed in bare environments"
	@echo "make release [STEPS='check build sbom audit sign notes']   the files of a release, signed with your gpg key"
	@echo "make clients [AGAINST=HOST:PORT]   kafkajs, franz-go, Kafka's Java client (npm, go, a JDK)"

.venv/.python:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	@touch $@

# One stamp for each set of extras; a larger set brings the smaller ones. A changed pyproject.toml installs again.
INSTALL := $(BIN)/pip install --quiet --editable
.venv/.demo: .venv/.python pyproject.toml
	$(INSTALL) '.[spark]'
	@touch $@

.venv/.test: .venv/.python pyproject.toml
	$(INSTALL) '.[all,test]'
	@touch .venv/.demo $@

.venv/.lint: .venv/.python pyproject.toml
	$(INSTALL) '.[all,test,lint]'
	@touch .venv/.demo .venv/.test $@

demo: .venv/.demo
	$(BIN)/moldau demo --seconds $(SECONDS) $(if $(FILE),--file '$(FILE)')

# The Spark tests share one session, so they run in one process; the others spread over the cores.
FAST := not slow and not java and not foreign
SLOW := slow and not java and not foreign and not server
test: .venv/.test
	@echo "make test, 1 of 2: wire, core, shell, clients, tools, clusters, console and registry; the dots end with how far it is"
	$(BIN)/pytest -n $(JOBS) -m "$(FAST)" --ignore tests/spark tests
	@echo "make test, 2 of 2: pipelines in one Spark session, with one target of each kind"
	$(BIN)/pytest -m "$(FAST)" tests/spark
	@echo "make test is done; make test-all runs the rest too"

test-all: test slow

# In parts, so that CI can run them side by side.
slow: slow-broker slow-spark slow-seeds-changed planted-changed

slow-broker: .venv/.test
	$(BIN)/pytest -n $(JOBS) -m "$(SLOW)" --ignore tests/spark tests

# In one process: Spark gives up a Python worker that takes ten seconds to start. Each JVM starts twice as fast with the
# file of `warm-up`, which the first run makes.
slow-spark: .venv/.test
	$(BIN)/moldau pipeline warm-up
	$(BIN)/pytest -m "$(SLOW)" tests/spark

# Every target through a Spark Connect server and a standalone cluster: what slow-spark proves on one machine.
spark-servers: .venv/.test
	$(BIN)/pytest -m "server and not java" tests/spark

# Debian's Prometheus with deploy/prometheus.yml; PROMETHEUS=PATH where it is elsewhere.
prometheus: .venv/.test
	$(BIN)/pytest -m server tests/conformance/test_prometheus.py

# Spark's own connector for so long, with tokens of 30 seconds. BROKER=kafka: Apache Kafka, fetched with Maven.
spark-tokens: .venv/.test
	$(BIN)/python -m tests.conformance.spark_connector.tokens --minutes $(or $(MINUTES),10) --broker $(or $(BROKER),moldau)

slow-seeds: .venv/.test
	$(BIN)/python -m tests.simulation.slow_seeds --jobs $(JOBS)

slow-seeds-changed: .venv/.test
	$(BIN)/python -m tests.simulation.slow_seeds --jobs $(JOBS) --changed

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# kafkajs, franz-go and Kafka's Java client against Moldau; AGAINST=HOST:PORT against any other cluster.
AGAINST ?= moldau
clients: .venv/.test
	$(BIN)/python -m tests.conformance.foreign --against $(AGAINST)

# In CI: only where these clients can notice a change since they last passed (tests/conformance/foreign_run.json).
clients-changed: .venv/.test
	$(BIN)/python -m tests.conformance.foreign --changed

# Random legal request sequences to Moldau and to Apache Kafka, compared.
SEQ ?= 2000
differential: .venv/.test
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/python -m tests.differential --sequences $(SEQ)

# As differential, on a login: three users with random ACLs, 12 requests a sequence.
USER_SEQ ?= 850
differential-users: .venv/.test
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/python -m tests.differential --users --sequences $(USER_SEQ)

# As differential-users: their requests of delegation tokens.
TOKEN_SEQ ?= 500
differential-tokens: .venv/.test
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/python -m tests.differential --tokens --sequences $(TOKEN_SEQ)

# Random pairs of Avro schemas and records beside Apache Avro for Java, whose jar pyspark brings. RECORD=--record keeps
# some of the answers, which tests compare with.
avro-pairs: .venv/.test
	$(BIN)/python -m tests.avro_pairs --pairs $(or $(PAIRS),2000) $(if $(SEED),--seed $(SEED)) $(RECORD)

acl-decisions: .venv/.test
	$(BIN)/python -m tests.acl_decisions --decisions $(or $(DECISIONS),1000000) $(if $(SEED),--seed $(SEED)) $(RECORD)

bench: .venv/.test
	$(BIN)/python -m benchmarks.run $(ARGS)

# An older commit and this one, interleaved in one run: has anything become slower?
REV ?= HEAD~1
bench-against: .venv/.test
	$(BIN)/python -m benchmarks.against $(REV) $(ARGS)

# Message systems next to Moldau, in one run. It downloads Debian packages and unpacks them into a cache, without
# installing them, and writes docs/compare/measured.md.
.venv/.compare: .venv/.python pyproject.toml
	$(INSTALL) '.[compare]'
	@touch $@

compare: .venv/.compare
	$(BIN)/python -m benchmarks.compare --rounds $(or $(ROUNDS),3) --records $(or $(RECORDS),100000) $(ARGS)
	$(BIN)/python -m benchmarks.compare.table

# kill -9, SIGTERM and SIGSTOP under load; SEED=N repeats the order of the acts.
SEED ?=
exactly-once: .venv/.test
	$(BIN)/python -m tests.exactly_once $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.exactly_once --member $(if $(SEED),--seed $(SEED))

# The same with Kafka's own copier, and a word count of Kafka Streams (Java, Maven).
exactly-once-java: .venv/.test
	$(BIN)/python -m tests.exactly_once --java $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.exactly_once --java --member $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.exactly_once.streams $(if $(SEED),--seed $(SEED))

# BROKER=kafka: Apache Kafka, fetched with Maven.
exactly-once-spark: .venv/.test
	$(BIN)/python -m tests.exactly_once.spark --records $(or $(RECORDS),2000000) --broker $(or $(BROKER),moldau) $(if $(SEED),--seed $(SEED))

exactly-once-flink: .venv/.test
	$(BIN)/python -m tests.exactly_once.flink --broker $(or $(BROKER),moldau) $(if $(SEED),--seed $(SEED))

# Writes examples/delivery/results.json and the picture. PART=producers or consumers: only these.
delivery: .venv/.demo .venv/.test
	$(BIN)/python -m tests.delivery --kills $(or $(KILLS),100) $(if $(SEED),--seed $(SEED)) $(if $(PART),--part $(PART))

# A driver dies at each named point of a batch and at random, executors in the middle of one.
kills-pipelines: .venv/.test
	$(BIN)/python -m tests.exactly_once.specs --records $(or $(RECORDS),1000000) --broker $(or $(BROKER),moldau) $(if $(SEED),--seed $(SEED)) $(if $(TARGETS),--targets $(TARGETS))

KILLS ?= 30
kills-examples: .venv/.test
	KILLS=$(KILLS) $(BIN)/pytest tests/cluster/test_example_rekey.py
	cd examples/ledger && ../../$(BIN)/python run.py --kills $(KILLS)
	cd examples/edge && ../../$(BIN)/python run.py --kills $(KILLS)

# Each payment counts once; without the library some count twice.
kills-idempotent: KILLS = 50
kills-idempotent: .venv/.test
	$(BIN)/python -m tests.idempotent.kills --records $(or $(RECORDS),50000) --kills $(KILLS) $(if $(CLIENT),--client $(CLIENT)) $(if $(DATABASE),--database $(DATABASE)) $(if $(SEED),--seed $(SEED))

kills-outbox: .venv/.test
	$(BIN)/python -m tests.idempotent.outbox_kills --records $(or $(RECORDS),50000) --kills $(KILLS) $(if $(DATABASE),--database $(DATABASE)) $(if $(SEED),--seed $(SEED))

# The stream has each record once, the table is right, and each statement is kept once.
kills-sql: KILLS = 20
kills-sql: .venv/.test
	$(BIN)/python -m tests.spark.sql.kills --records $(or $(RECORDS),500000) --kills $(KILLS) $(if $(SEED),--seed $(SEED))

# Each number arrives as the page of the connector says. CONNECTOR: a name, or how names begin. BROKER=kafka: Apache
# Kafka, fetched with Maven.
kills-connect: KILLS = 10
kills-connect: .venv/.test
	$(if $(filter kafka,$(BROKER)),$(WITH_KAFKA)) $(BIN)/python -m tests.products.connect.kills --kills $(KILLS) --worker-kills $(or $(WORKER_KILLS),5) --broker $(or $(BROKER),moldau) $(if $(CONNECTOR),--connector $(CONNECTOR)) $(if $(RUNNER),--runner $(RUNNER)) $(if $(SEED),--seed $(SEED))

# Each configuration of kills-connect on Spark gives what its light task gives.
connectors-on-spark: .venv/.test
	MOLDAU_CONNECTORS_ON_SPARK=all $(BIN)/pytest tests/spark/connectors/test_every_connector.py

# The tests of connectors on Apache Kafka, fetched with Maven, with tests/support/connect_cluster.py. TESTS: which.
connect-on-kafka: .venv/.test
	$(WITH_KAFKA) MOLDAU_CONNECT_ON=kafka $(BIN)/pytest $(or $(TESTS),tests/products/connect tests/spark/connectors)

soak-pipelines: .venv/.test
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30)

torture: .venv/.test
	$(BIN)/python -m tests.torture --minutes $(or $(MINUTES),15) $(if $(SEED),--seed $(SEED))

# Three brokers beside clients whose history is judged at the end. ROOT=1, as root: machines are network namespaces, and
# one node has a small disk, which is filled.
chaos: .venv/.test
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) $(if $(ROOT),--root)

# Nodes on machines of their own, which are network namespaces: says why where it is not root.
machines: .venv/.test
	$(BIN)/python -m tests.machines

# Three machines under load for so long, each restarted twice. APART=1: controllers apart from brokers; KAFKA=1: one of
# the machines has Apache Kafka's nodes (fetched with Maven); PATIENT=1: longer sessions, for a busy machine.
WITH_KAFKA = MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers)
machines-soak: .venv/.test
	$(if $(KAFKA),$(WITH_KAFKA)) $(BIN)/python -m tests.machines.soak --minutes $(or $(MINUTES),60) $(if $(APART),--apart) $(if $(KAFKA),--kafka) $(if $(PATIENT),--patient) $(if $(SEED),--seed $(SEED))

# How long producers stand in each kind of cut. KAFKA=1: Apache Kafka is cut at the same time.
machines-cuts: .venv/.test
	$(if $(KAFKA),$(WITH_KAFKA)) $(BIN)/python -m tests.machines.cuts --rounds $(or $(ROUNDS),10) $(if $(KAFKA),--kafka) $(if $(SEED),--seed $(SEED))

# Three nodes of Apache Kafka (fetched with Maven) become nodes of Moldau, one by one, and go back.
change-of-sides: .venv/.test
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/python -m tests.chaos.sides $(if $(SEED),--seed $(SEED))
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/python -m tests.chaos.sides --dynamic $(if $(SEED),--seed $(SEED))

fuzz: .venv/.test
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10)

verdicts: .venv/.test
	$(BIN)/python -m tests.verdicts --pairs $(or $(PAIRS),500) $(if $(SEED),--seed $(SEED))

FROM ?= 1000
TO ?= 2000
seeds: .venv/.test
	$(BIN)/python -m moldau.simulation --seeds $(FROM)..$(TO) --jobs $(JOBS)
	$(BIN)/python -m moldau.simulation.replication --seeds $(FROM)..$(TO) --jobs $(JOBS)
	$(BIN)/python -m moldau.simulation.raft --seeds $(FROM)..$(TO) --jobs $(JOBS)
	$(BIN)/python -m moldau.simulation.cluster --seeds $(FROM)..$(TO) --jobs $(JOBS)

# Every schedule of a quorum of three behind its first election, and of three replicas behind five situations, up to so
# many steps.
DEPTH := 9
DEPTH_OF_REPLICAS := 6
schedules: .venv/.test
	$(BIN)/python -m moldau.simulation.raft.schedules --depth $(DEPTH)
	$(BIN)/python -m moldau.simulation.replication.schedules --depth $(DEPTH_OF_REPLICAS)

# An EndTxn that arrives late, in both protocols of transactions, and nothing else.
LATE := 1..10000
late-end-txn: .venv/.test
	$(BIN)/python -m moldau.simulation.late_end_txn --seeds $(LATE) --jobs $(JOBS)

# Is each planted bug found? AGAIN=--again searches the first seed of each, AGAIN='--again --bug TEXT' of some.
planted: .venv/.test
	$(BIN)/python -m tests.simulation.planted --jobs $(JOBS) $(AGAIN)

planted-changed: .venv/.test
	$(BIN)/python -m tests.simulation.planted --jobs $(JOBS) --changed

# Which lines of the deciding code and of the shell of the broker a hundred seeds run.
COVERED := 1..100
SIMULATED := src/moldau/core,src/moldau/shell/broker,src/moldau/shell/network,src/moldau/shell/quorum
sim-coverage: .venv/.test
	$(BIN)/coverage run --source $(SIMULATED) -m moldau.simulation --seeds $(COVERED)
	$(BIN)/coverage run --append --source $(SIMULATED) -m moldau.simulation.replication --seeds $(COVERED)
	$(BIN)/coverage run --append --source $(SIMULATED) -m moldau.simulation.raft --seeds $(COVERED)
	$(BIN)/coverage report --skip-covered --sort cover

# All golden cases of streaming SQL, of which `make slow-spark` runs a part. ON=kafka: Apache Kafka (needs Java 17 and
# Maven); ON=cluster: a standalone Spark cluster.
sql-cases: .venv/.test
	$(if $(filter kafka,$(ON)),$(WITH_KAFKA)) MOLDAU_ALL_SQL_CASES=1 MOLDAU_SQL_CASES_ON=$(ON) \
		$(BIN)/pytest tests/spark/sql/test_cases.py

sql-histories: HISTORIES = 2000
sql-histories: .venv/.test
	$(BIN)/python -m tests.spark.sql.histories --count $(HISTORIES) $(if $(SEED),--seed $(SEED))

oracle: .venv/.test
	MOLDAU_KAFKA_LIBS=$$($(BIN)/python -m benchmarks.peers) $(BIN)/pytest -m java tests

# Wheel and sdist in dist/, with the version of the changelog, each extra tried in an environment of its own.
EXTRAS ?= base columnar spark
dist:
	PYTHON=$(PYTHON) deploy/dist $(EXTRAS)

# Wheel and sdist, a list of what is in them (CycloneDX), an audit, SHA256SUMS with a signature, and notes: in dist/.
release:
	PYTHON=$(PYTHON) deploy/release $(STEPS)

ci:
	bash .ci/run

clean:
	rm -rf .venv build dist demo-output benchmarks/results
