# make drill    drill of two sites that lose their relay and hand over: simulated, then with real processes
# make test     the tests below two seconds      make check   linters and type checks
# make venv     only the environment .venv; commands then run as .venv/bin/jgroups-py
#
# Needs python3 (3.11 or later) with its venv module, and a package index for the first run.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SEED   ?=
SIZES  ?= 100 1KB 10KB
TIME   ?= 5s
SPACE  := $(subst ,, )
MUTANTS ?=

export IP_MULTICAST_IF ?= 127.0.0.1
# Without compiled files each worker compiles all tests again, and each process that a test starts compiles the whole package. That takes a third of the time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv test test-long durations test-slow test-random test-java test-spark test-memcached demo-spark docs check format drill drill-short drill-seeds requirements \
        bench bench-quick bench-rates bench-sim bench-scale bench-overload bench-sweep memory fuzz fuzz-short mutants mutants-short flood long-life maps-kills encrypted-hours \
        simulate simulate-short starts-explore histories histories-short buddy-explore buddy-explore-short map-explore livebackup-explore broker-kills buckets-explore buckets-kills bucket-exchange test-compiled maps-stress maps-spark-kills bounds clean

help:
	@sed -n 's/^# //p' Makefile | head -4
	@echo "make test-long  the tests of a second and more, most with real processes"
	@echo "make test-random  tests of properties with new examples"
	@echo "make test-slow  thousands of cases     make requirements  the tests that show each requirement"
	@echo "make bench      benchmark with other libraries   make bench-quick   a shorter one, of some minutes"
	@echo "make bench-rates  messages per second    make bench-sim     100 members, one virtual hour"
	@echo "make bench-scale  the cost of one more member at 10, 100 and 500 members"
	@echo "make test-memcached  pymemcache's own tests against our server, and memccapable if it is installed"
	@echo "make test-java  tests with Java members; needs Java and Maven"
	@echo "make docs       the documentation, in build/docs/html"
	@echo "make test-spark tests with Spark in local mode; needs Java 17     make demo-spark   a demonstration"
	@echo "make fuzz       one million hostile inputs (make fuzz-short: for 40 s)"
	@echo "make starts-explore  10,000 simultaneous starts on one machine: do the members of each form one group?"
	@echo "make drill-seeds  500 different drills     make memory   the highest memory of a member"
	@echo "make maps-kills  1,000 writers of a map are killed: is each returned put in the map, and none half done?"
	@echo "make maps-stress  10,000 puts a second at one of three hosts: are the maps equal every second? How soon is a put visible?"
	@echo "make maps-spark-kills  five workers of Spark and a web server share a map and are killed: is each returned put in the map?"
	@echo "make encrypted-hours  an hour of ASYM_ENCRYPT and of SEAL with leaving members: can former members read later messages?"
	@echo "make flood      a million forged, replayed and altered packets at groups behind SEAL and TLS"
	@echo "make long-life  a day of churn in virtual time: does any table grow?"
	@echo "make mutants    planted faults: do our checks find them?"
	@echo "make buddy-explore  100,000 random schedules of buddy replication's logic, and 2,000 clusters (-short: fewer)"
	@echo "make map-explore    10,000 random histories of maps with links, a shared medium and whole clusters; bytes of a put at 127 hosts"
	@echo "make livebackup-explore  100,000 random orders of operations on live and backup, with crashes of both"
	@echo "make broker-kills  the live broker of examples/broker is killed 50 times under load: are the answers to clients true?"
	@echo "make buckets-kills  each role of a bucket store is killed 20 times under load, then during moves and between two versions"
	@echo "make buckets-explore  10,000 random schedules of a bucket store: kills, cuts and moves under load, two versions, re-partition, late messages"
	@echo "make bucket-exchange  a million objects, upgraded and downgraded under load: how long do requests take, is a change lost?"
	@echo "make test-compiled  the tests with the hot modules compiled, in an environment of their own; needs a C compiler"
	@echo "make bench-overload  tiny and huge messages with small socket buffers and a slow member, compared with Java"
	@echo "make bench-sweep  are the settings of the stacks near the best ones for messages of 100 B?"
	@echo "make histories  10,000 histories of concurrent callers of caches: is each linearizable? (-short: fewer)"
	@echo "make bounds     6,000 simulated faults, and as many take-overs: does any take longer than the worst case of validate?"
	@echo "make simulate   10,000 random schedules of faults (make simulate-short: for a minute)"

venv: $(STAMP)

$(STAMP): pyproject.toml setup.cfg Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is older than 3.11; name another one: make PYTHON=python3.12" >&2; exit 1; }
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -e '.[test]'; \
	else \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) has no venv module. Debian, Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'; \
	fi
	@touch $@

# Two processes compile the modules that tests import, a half each. Otherwise each of the workers below compiles all of them.
build/.compiled: $(STAMP) $(shell find tests -name '*.py')
	@mkdir -p build
	@for half in a-h i-z; do \
	  $(BIN)/python -m pytest -qqq -p no:cacheprovider --collect-only tests/[$$half]*/ >/dev/null 2>&1 & done; wait
	@touch $@

# Tests with real sockets mostly wait, so there are more processes than cores. tests/conftest.py gives each process its ports.
test: build/.compiled
	$(BIN)/python -m pytest -q -m "not long and not slow and not java and not spark" -n 4 --dist worksteal --durations=25 \
	  --junitxml build/tests.xml --record-requirements build/requirements.json tests

# Tests of a second and more (tests/long_tests.txt), most of them with real processes.
test-long: build/.compiled
	$(BIN)/python -m pytest -q -m "long and not slow and not java and not spark" -n 4 --dist worksteal --durations=25 \
	  --junitxml build/tests-long.xml tests

# Assigns each test to make test or to make test-long, by its current duration.
durations: test test-long
	$(BIN)/python tests/tidy/long_tests.py build/tests.xml build/tests-long.xml

test-slow: $(STAMP)
	$(BIN)/python -m pytest -q -m "slow" --hypothesis-profile=random tests

# The tests of properties, with new examples. The others have the same ones in each run.
test-random: $(STAMP)
	$(BIN)/python -m pytest -q -m "hypothesis and not slow and not java and not spark" --hypothesis-profile=random -n 4 tests

test-java: $(STAMP)
	$(BIN)/python -m pytest -q -rs -m "java" tests/interop tests/tools/test_bench_relays.py

# The tests are in the source archive of the client's release.
build/pymemcache/pymemcache-4.0.0: $(STAMP)
	$(BIN)/python -m pip download --quiet --no-deps --no-binary pymemcache -d build/pymemcache pymemcache==4.0.0
	tar xzf build/pymemcache/pymemcache-4.0.0.tar.gz -C build/pymemcache

test-memcached: build/pymemcache/pymemcache-4.0.0
	cd $< && PYTHONPATH=$(CURDIR)/tests/buckets $(CURDIR)/$(BIN)/python -m pytest -q -rs -p pymemcache_plugin -p no:cacheprovider \
	  -o addopts= --server 127.0.0.1 --port 12311 pymemcache/test/test_integration.py
	$(BIN)/python tests/buckets/memccapable.py

# The documentation, offline, in build/docs/html. A warning (a broken link, a page without a link to it) is an error.
DOCS   := $(VENV)/.docs

$(DOCS): $(STAMP)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python -e '.[docs]'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'; \
	fi
	@touch $@

docs: $(DOCS)
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/docs/doctrees docs build/docs/html
	@echo "open build/docs/html/index.html"

# The extra is large (pyspark has 420 MB of jars), so it is installed only for the targets that need it.
SPARK  := $(VENV)/.spark

$(SPARK): $(STAMP)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python -e '.[test,spark]'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,spark]'; \
	fi
	@touch $@

test-spark:
	@if command -v java >/dev/null 2>&1 || [ -n "$$JAVA_HOME" ]; then \
	  $(MAKE) --no-print-directory $(SPARK) && \
	  $(BIN)/python -m pytest -q -rs -m "spark" tests/spark; \
	else \
	  echo "skipped: Spark needs Java 17 (java on the PATH, or JAVA_HOME)"; \
	fi

demo-spark: $(SPARK)
	$(BIN)/python -m jgroups_py.spark.demo build/demo-spark

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=$(subst $(SPACE),:,$(strip $(wildcard tests/* tests/protocols/*/))) $(BIN)/mypy --exclude 'conftest\.py$$' tests

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

drill: $(STAMP)
	@mkdir -p build/drill
	$(BIN)/jgroups-py drill stacks/drills/nyc-sfo.yaml --simulated $(if $(SEED),--seed $(SEED)) \
	  --json build/drill/nyc-sfo.simulated.json --log build/drill/nyc-sfo.simulated.jsonl \
	  --report build/drill/nyc-sfo.simulated.html
	$(BIN)/jgroups-py drill stacks/drills/nyc-sfo.yaml --real $(if $(SEED),--seed $(SEED)) \
	  --json build/drill/nyc-sfo.real.json --log build/drill/nyc-sfo.real.jsonl \
	  --report build/drill/nyc-sfo.real.html

# Members start at once on one machine: do they form one group, and does a member that is alone start without waiting?
starts-explore: $(STAMP)
	$(BIN)/jgroups-py dev starts-explore --seeds 1..10000 --json build/starts-explore/seeds.json

drill-short: $(STAMP)
	@mkdir -p build/drill
	$(BIN)/jgroups-py drill stacks/drills/nyc-sfo.yaml --simulated \
	  --json build/drill/nyc-sfo.simulated.json
	$(BIN)/jgroups-py drill stacks/drills/site-split.yaml --seeds 1..8 \
	  --json build/drill/site-split.json
	$(BIN)/jgroups-py drill stacks/drills/short.yaml --real --json build/drill/short.real.json

drill-seeds: $(STAMP)
	@mkdir -p build/drill
	$(BIN)/jgroups-py drill stacks/drills/nyc-sfo-vary.yaml --seeds 1..500 \
	  --json build/drill/nyc-sfo-vary.json

requirements: $(STAMP)
	@$(BIN)/jgroups-py dev requirements

bench: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.peers --json build/bench/peers.json

bench-quick: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.peers --sizes 1000 --members 2 --senders 0 \
	  --callers 1,8 --joiners "" --idle 0 --cache-sizes "" --relay-sizes "" --no-overload --seconds 1 --warm-up 1 --runs 2 --minutes 3.3 \
	  --leave-out "Java JGroups 5.5.6.Final tuned,NATS,Redis,corosync of 1 node" --json build/bench/peers-quick.json

bench-rates: $(STAMP)
	@for stack in udp.xml tcp.xml; do for members in 2 3 4; do for size in $(SIZES); do \
	  $(BIN)/jgroups-py mperf --stack $$stack --members $$members --size $$size --for $(TIME) \
	    || exit 1; \
	done; done; done

bench-sim: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.sim

bench-scale: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.scale --members 10,100,500

memory: $(STAMP)
	$(BIN)/jgroups-py dev memory

fuzz: $(STAMP)
	$(BIN)/jgroups-py dev fuzz --inputs 1000000 $(if $(SEED),--seed $(SEED)) --json build/fuzz/fuzz.json

fuzz-short: $(STAMP)
	$(BIN)/jgroups-py dev fuzz --for 40s $(if $(SEED),--seed $(SEED)) --json build/fuzz/fuzz-short.json

maps-kills: $(STAMP)
	$(BIN)/python -m pytest -q -m slow tests/outside/test_maps_of_processes.py

maps-stress: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.maps_stress --json build/maps/stress.json
	$(BIN)/python -m jgroups_py.tools.bench.maps_delay --json build/maps/delay.json

# Spark's workers and those of a web server put into one map and are killed: is each returned put in the map?
maps-spark-kills: $(SPARK)
	$(BIN)/python tests/spark/kill_map_workers.py --kills 50

# An hour of virtual time with ASYM_ENCRYPT, and one with SEAL: is a message lost, and can a former member read later messages?
encrypted-hours: $(STAMP)
	$(BIN)/python -m pytest -q -m slow tests/security/test_encrypted_hours.py

# A stranger who has recorded a group sends a million packets, to SEAL and to TLS: is one delivered, does a view change, does memory grow?
flood: $(STAMP)
	$(BIN)/python tests/security/flood.py --packets 1000000

long-life: $(STAMP)
	@mkdir -p build/long-life
	$(BIN)/jgroups-py dev longlife $(if $(SEED),--seed $(SEED)) \
	  --json build/long-life/day.json --plot build/long-life/day.svg

mutants: $(STAMP)
	$(BIN)/python tests/mutants/run_mutants.py --json build/mutants.json --table design/mutants.md $(MUTANTS)

# The commit chooses the mutants, so a run with the same commit has the same ones.
mutants-short: $(STAMP)
	$(BIN)/python tests/mutants/run_mutants.py --time 60 \
	  --pick "$$(git rev-parse HEAD 2>/dev/null || echo none)" --json build/mutants-short.json

simulate: $(STAMP)
	$(BIN)/jgroups-py dev simulate --profile all --seeds 1..10000 --json build/simulate/all.json

simulate-short: $(STAMP)
	$(BIN)/python -m pytest -q -m "slow" -n 2 tests/explore/test_found.py
	$(BIN)/jgroups-py dev simulate --profile all --seeds 1..10000 --for 60s \
	  --json build/simulate/short.json

# design/linearizability.md has the promises of every back end.
histories: $(STAMP)
	$(BIN)/jgroups-py dev simulate --profile cache-local --seeds 1..2000 --json build/simulate/cache-local.json
	$(BIN)/jgroups-py dev simulate --profile cache-replicated --seeds 1..3000 --json build/simulate/cache-replicated.json
	$(BIN)/jgroups-py dev simulate --profile cache-buddy --seeds 1..3000 --json build/simulate/cache-buddy.json
	$(BIN)/jgroups-py dev simulate --profile cache-sessions --seeds 1..2000 --json build/simulate/cache-sessions.json

histories-short: $(STAMP)
	$(BIN)/jgroups-py dev simulate --profile cache --seeds 1..300 --for 30s --json build/simulate/cache.json

buddy-explore: $(STAMP)
	$(BIN)/jgroups-py dev buddy-explore --seeds 1..100000 --json build/buddy-explore/all.json
	$(BIN)/jgroups-py dev buddy-explore --profile cluster --seeds 1..2000 --json build/buddy-explore/clusters.json

buddy-explore-short: $(STAMP)
	$(BIN)/jgroups-py dev buddy-explore --seeds 1..1000 --json build/buddy-explore/short.json
	$(BIN)/jgroups-py dev buddy-explore --profile cluster --seeds 1..20

map-explore: $(STAMP)
	$(BIN)/jgroups-py dev map-explore --seeds 1..10000 --json build/map-explore/links.json
	$(BIN)/jgroups-py dev map-explore --profile map-shared --seeds 1..10000 --json build/map-explore/shared.json
	$(BIN)/jgroups-py dev map-explore --profile map-cluster --seeds 1..10000 --json build/map-explore/clusters.json
	$(BIN)/jgroups-py dev map-traffic --hosts 127 --json build/map-explore/traffic.json

# Compares the worst cases of validate with 2,000 simulated faults of each kind.
bounds: $(STAMP)
	$(BIN)/jgroups-py dev bounds --faults 2000 --json build/bounds/detection.json
	$(BIN)/jgroups-py dev bounds --of take-over --faults 2000 --json build/bounds/take-over.json

livebackup-explore: $(STAMP)
	$(BIN)/python tests/livebackup/explore_orders.py --schedules 100000

broker-kills: $(STAMP)
	$(BIN)/python tests/broker/kill_brokers.py --kills 50

buckets-kills: $(STAMP)
	$(BIN)/python tests/buckets/kill_components.py --kills 20
	$(BIN)/python tests/buckets/kill_components.py --kills 20 --moves --versions

buckets-explore: $(STAMP)
	$(BIN)/jgroups-py dev buckets-explore --seeds 1..5000 --json build/buckets-explore/schedules.json
	$(BIN)/jgroups-py dev buckets-explore --profile buckets-blips --seeds 1..1000 --json build/buckets-explore/blips.json
	$(BIN)/jgroups-py dev buckets-explore --profile buckets-versions-blips --seeds 1..1000 --json build/buckets-explore/versions.json
	$(BIN)/jgroups-py dev buckets-explore --profile buckets-repartition --seeds 1..1000 --json build/buckets-explore/repartition.json
	$(BIN)/jgroups-py dev buckets-explore --profile buckets-late --seeds 1..1000 --json build/buckets-explore/late.json
	$(BIN)/jgroups-py dev buckets-explore --profile buckets-orders --seeds 1..1000 --json build/buckets-explore/orders.json

bucket-exchange: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.bucket_exchange --json build/bench/bucket-exchange.json

# Builds a wheel with the hot modules compiled (setup.py), and runs the tests with it. PYTHONSAFEPATH excludes the sources of this folder from
# the tests and from the processes that they start. Modules of the tests and the examples that these processes import are on a separate path.
COMPILED := build/compiled
COMPILED_ENV := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(COMPILED)/names:$(CURDIR)/tests/outside
# The modules are compiled without optimizing, which takes a sixth of the time. ROOMS=tests/wire runs only these tests.
ROOMS ?= tests

$(COMPILED)/.installed: $(STAMP) setup.py jgroups_py/compiled.txt $(shell find jgroups_py protocols tools stacks -name '*.py')
	rm -rf $(COMPILED)
	$(PYTHON) -m venv $(COMPILED)
	JGROUPS_PY_COMPILE=1 JGROUPS_PY_OPTIMIZE=0 $(COMPILED)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w $(COMPILED)/wheel .
	$(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo $(COMPILED)/wheel/*.whl)[test]"
	mkdir $(COMPILED)/names && ln -s $(CURDIR)/tests $(CURDIR)/examples $(COMPILED)/names
	@touch $@

test-compiled: $(COMPILED)/.installed
	$(COMPILED_ENV) $(COMPILED)/bin/python -m jgroups_py --version
	$(COMPILED_ENV) $(COMPILED)/bin/python -m pytest -q -m "not slow and not java and not spark" -n 4 --dist worksteal $(ROOMS)

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

bench-overload: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.peers --sizes "" --callers "" --joiners "" --idle 0 --cache-sizes "" --relay-sizes "" \
	  --runs 1 --json build/bench/overload.json

bench-sweep: $(STAMP)
	$(BIN)/python -m jgroups_py.tools.bench.sweep --json build/bench/sweep.json
