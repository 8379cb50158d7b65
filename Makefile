# make [SAN=address|thread|undefined] [DEBUG=1] [V=1] [BUILD=dir] TARGET
#   quickstart  install what is missing, build, run all_reduce_perf on the emulated Trn2
#   check       install, build, run all tests; the last line is 'N passed, N failed'
#   verify-all  verifies the programs of every platform, group and algorithm, and runs each algorithm
#   topo-golden compares our topologies with NCCL's, bench-topo times the searches, if a corpus is there
#   bench       against the CPU collectives that are installed (bench-deps installs some) and a
#               hand-made floor, two minutes; bench-all: everything, hours
#   bench-compose  programs of very large groups
#   all deps asan tsan ubsan fuzz lint format install clean
SHELL   := /bin/bash -o pipefail
BUILD   ?= build$(if $(SAN),/$(SAN))$(if $(DEBUG),/debug)
PREFIX  ?= /usr/local
DESTDIR ?=
CCACHE  := $(shell command -v ccache)
CXX     ?= g++
Q       := $(if $(V),,@)
JOBS    ?= $(shell nproc)
MPICXX  := $(shell command -v mpicxx.openmpi || command -v mpicxx)

CXXFLAGS ?= -g $(if $(DEBUG),-O0,-O2)
# The last two are what g++ 12 says of correct standard library code once it is inlined.
WARNINGS := -Wall -Wextra -Wshadow -Wpedantic -Wconversion -Wno-sign-conversion -Werror \
            -Wno-maybe-uninitialized -Wno-stringop-overflow
# It knows no fences. Ours order a store before a look; data is released and acquired without them.
WARNINGS += $(if $(filter thread,$(SAN)),-Wno-tsan)
SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
FLAGS    := -std=c++20 -fPIC -pthread -fvisibility=hidden -Isrc -I. -MMD -MP $(WARNINGS) $(SANITIZE)
LINK      = $(CXX) $(SANITIZE) -pthread -Wl,--as-needed

# ---- what is made of what -------------------------------------------------------------------
objects   = $(patsubst %.cc,$(BUILD)/obj/%.o,$(1))
CORE     := $(call objects,$(wildcard $(addprefix src/,$(addsuffix /*.cc,misc plugin graph enc enc/* transport comm api))))
EMU      := $(call objects,$(wildcard plugins/device_emu/*.cc))
OFI      := $(call objects,$(wildcard plugins/net_ofi/*.cc))
PERF     := $(wildcard test/perf/*_perf.cc)
PERFLIB  := $(filter-out $(PERF) test/perf/main%.cc,$(wildcard test/perf/*.cc))
UNITS    := $(notdir $(wildcard test/unit/*))
LIB      := $(BUILD)/lib/libnccom.so.2
PLUGINS  := $(BUILD)/lib/libnccom-device-emu.so $(BUILD)/lib/libnccom-net-ofi.so
TOOL     := $(call objects,$(filter-out tools/nccom/main.cc,$(wildcard tools/nccom/*.cc)))
BENCHLIB := test/bench/driver.cc test/bench/world.cc
BENCHES  := $(BUILD)/bin/bench_nccom $(BUILD)/bin/bench_floor
PEERS    := $(if $(shell command -v mpicxx.openmpi),$(BUILD)/bin/bench_openmpi) \
            $(if $(shell command -v mpicxx.mpich),$(BUILD)/bin/bench_mpich) \
            $(if $(wildcard /usr/include/gloo/allreduce.h),$(BUILD)/bin/bench_gloo)
PROGRAMS := $(BUILD)/bin/nccom $(PERF:test/perf/%.cc=$(BUILD)/bin/%) $(if $(MPICXX),$(PERF:test/perf/%.cc=$(BUILD)/bin/%_mpi))
TESTS    := $(UNITS:%=$(BUILD)/test/%_test)
CORELIBS := -lpugixml -lhwloc -lcrypto -ldl

all: $(LIB) $(PLUGINS) $(PROGRAMS)

$(LIB): $(CORE) src/nccom.map
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -Wl,-soname,libnccom.so.2 -Wl,--version-script=src/nccom.map $(CORE) $(CORELIBS) -o $@
	$(Q)ln -sf libnccom.so.2 $(@D)/libnccom.so

$(BUILD)/lib/libnccom-device-emu.so: $(EMU) plugins/device_emu/export.map
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -Wl,--version-script=plugins/device_emu/export.map $(EMU) -lhwy -o $@

$(BUILD)/lib/libnccom-net-ofi.so: $(OFI) plugins/net_ofi/export.map
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -Wl,--version-script=plugins/net_ofi/export.map $(OFI) -lfabric -o $@

$(BUILD)/bin/nccom-params: $(BUILD)/obj/tools/params.o $(call objects,$(wildcard src/misc/*.cc))
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $^ -o $@

$(BUILD)/bin/nccom: $(BUILD)/obj/tools/nccom/main.o $(TOOL) $(call objects,$(wildcard src/misc/*.cc src/graph/*.cc src/enc/*.cc) src/comm/places.cc)
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $^ $(CORELIBS) -o $@

$(BUILD)/bin/compose_bench: $(BUILD)/obj/test/bench/compose_bench.o $(call objects,$(wildcard src/misc/*.cc src/graph/*.cc src/enc/*.cc))
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $^ $(CORELIBS) -o $@

$(BUILD)/bin/bench_nccom: $(call objects,test/bench/bench_nccom.cc $(BENCHLIB)) $(LIB)
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $(filter %.o,$^) -L$(BUILD)/lib -lnccom -Wl,-rpath,'$$ORIGIN/../lib' -o $@

# The floor is what this very machine can do, so its loops are compiled for it.
FLOOR := $(addprefix test/bench/,bench_floor.cc floor_memory.cc floor_probe.cc)
$(BUILD)/obj/test/bench/floor_memory.o: CXXFLAGS += -O3 -march=native -DHWY_COMPILE_ONLY_STATIC
$(BUILD)/bin/bench_floor: $(call objects,$(FLOOR) $(BENCHLIB))
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $^ -o $@

$(BUILD)/bin/bench_gloo: $(call objects,test/bench/bench_gloo.cc $(BENCHLIB))
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $^ -lgloo -o $@

# With the compilers of Open MPI and of MPICH, one program each.
$(BUILD)/bin/bench_openmpi $(BUILD)/bin/bench_mpich: $(BUILD)/bin/bench_%: test/bench/bench_mpi.cc $(call objects,$(BENCHLIB))
	@echo "MPI $@"
	$(Q)mkdir -p $(@D) $(BUILD)/obj/test/bench
	$(Q)mpicxx.$* $(FLAGS) $(CXXFLAGS) -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -MT $@ \
	  -MF $(BUILD)/obj/test/bench/bench_$*.d -c $< -o $(BUILD)/obj/test/bench/bench_$*.o
	$(Q)mpicxx.$* $(SANITIZE) -pthread $(BUILD)/obj/test/bench/bench_$*.o $(filter %.o,$^) -o $@

$(BUILD)/bin/%_perf: $(BUILD)/obj/test/perf/%_perf.o $(call objects,$(PERFLIB) test/perf/main.cc) $(LIB)
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $(filter %.o,$^) -L$(BUILD)/lib -lnccom -Wl,-rpath,'$$ORIGIN/../lib' -o $@

$(BUILD)/bin/%_perf_mpi: $(BUILD)/obj/test/perf/%_perf.o $(call objects,$(PERFLIB)) $(BUILD)/obj/test/perf/main_mpi.o $(LIB)
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(MPICXX) $(SANITIZE) $(filter %.o,$^) -L$(BUILD)/lib -lnccom -Wl,-rpath,'$$ORIGIN/../lib' -o $@

$(BUILD)/obj/test/perf/main_mpi.o: test/perf/main_mpi.cc
	@echo "MPI $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(MPICXX) $(FLAGS) $(CXXFLAGS) -DOMPI_SKIP_MPICXX -c $< -o $@

$(BUILD)/obj/%.o: %.cc
	@echo "CXX $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CCACHE) $(CXX) $(FLAGS) $(CXXFLAGS) -c $< -o $@

# A test program a folder of test/unit, linked with the objects themselves: internals are hidden in the library.
$(BUILD)/test/device_emu_test: $(EMU)
$(BUILD)/test/net_ofi_test: $(OFI)
$(BUILD)/test/net_ofi_test $(BUILD)/test/net_socket_test: $(call objects,$(wildcard test/conformance/net_*.cc))
$(BUILD)/test/tool_test: $(TOOL)
$(BUILD)/test/perf_test: $(call objects,$(PERFLIB))
$(BUILD)/test/fuzz_test: $(call objects,$(wildcard test/fuzz/*.cc) test/perf/size.cc)
# Plugins for the loader's tests to open, one a C file.
FAKES := $(patsubst %.c,$(BUILD)/test/plugin/%.so,$(notdir $(wildcard test/unit/plugin/*.c)))
$(BUILD)/test/plugin_test: $(FAKES)
$(BUILD)/test/plugin/%.so: test/unit/plugin/%.c test/unit/plugin/fake_net.h
	@echo "CC  $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c99 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -Isrc $< -o $@
define unit
$(BUILD)/test/$(1)_test: $(call objects,$(wildcard test/unit/$(1)/*.cc)) $(CORE)
	@echo "LD  $$@"
	$(Q)mkdir -p $$(@D)
	$(Q)$$(LINK) $$(filter %.o,$$^) -lgtest -lgmock -lgtest_main -lhwy -lfabric $(CORELIBS) -o $$@
endef
$(foreach folder,$(UNITS),$(eval $(call unit,$(folder))))

tests: all $(TESTS) $(BENCHES)

# ---- what people call -----------------------------------------------------------------------
# Installs the Debian packages that are missing; does nothing, and needs no root, if all are there.
deps:
	$(Q)tools/deps.sh

quickstart:
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(BUILD)/bin/all_reduce_perf -b 8 -e 16M -f 4 -g 8

check:
	$(Q)$(MAKE) --no-print-directory deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) tests
	$(Q)test/run.sh $(BUILD)

# The unit tests under a sanitizer, each in a build folder of its own.
asan tsan ubsan: SANITIZER = $(subst asan,address,$(subst ubsan,undefined,$(subst tsan,thread,$@)))
asan tsan ubsan:
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) SAN=$(SANITIZER) tests
	$(Q)test/run.sh --unit build/$(SANITIZER)

# The sweep over all platforms, groups, operations and algorithms whole, and each algorithm on the
# emulated device with all types: hours, where check takes a cut.
verify-all: tests
	LIBNCCOM_VERIFY_ALL=1 $(BUILD)/test/enc_test --gtest_filter='Sweep.*'
	LIBNCCOM_VERIFY_ALL=1 LIBNCCOM_TEST_BUILD=$(BUILD) $(BUILD)/test/system_test --gtest_filter='Algorithms.*'

# Against the installed CPU collectives and a hand-made floor: BENCH has more options of bench.py.
bench bench-all: all $(BENCHES) $(PEERS)
	test/bench/bench.py --build $(BUILD) $(if $(filter bench,$@),--quick) $(BENCH)

bench-deps:
	$(Q)tools/deps.sh libopenmpi-dev openmpi-bin libmpich-dev mpich libgloo-dev

# Programs of up to 65,536 ranks: fails if composing or verifying takes longer than promised.
bench-compose: $(BUILD)/bin/compose_bench
	$(BUILD)/bin/compose_bench

# NCCL's topology files and answers, of which compare.py makes a table; another folder: TOPO_CORPUS=
TOPO_CORPUS ?= $(or $(LIBNCCOM_TOPO_CORPUS),../shared/topo)
topo-golden: $(BUILD)/bin/nccom
	$(Q)[ -d $(TOPO_CORPUS)/golden ] || { echo "skipped: no corpus of topologies in $(TOPO_CORPUS)"; exit 0; }; \
	status=0; for search in nccl best; do \
	  echo "--- search $$search"; rm -rf $(BUILD)/topo-golden/$$search; \
	  $(BUILD)/bin/nccom topo batch $(TOPO_CORPUS)/golden $(TOPO_CORPUS)/xml $(BUILD)/topo-golden/$$search --search $$search || status=1; \
	  python3 $(TOPO_CORPUS)/compare.py $(BUILD)/topo-golden/$$search $(TOPO_CORPUS)/golden || status=1; \
	done; exit $$status

bench-topo: $(BUILD)/bin/nccom
	$(Q)[ -d $(TOPO_CORPUS)/xml ] || { echo "skipped: no corpus of topologies in $(TOPO_CORPUS)"; exit 0; }; \
	for search in nccl best; do \
	  echo "--- search $$search"; \
	  $(BUILD)/bin/nccom topo bench $(TOPO_CORPUS)/xml $(TOPO_CORPUS)/timing-2.30.7.csv --search $$search; \
	done

lint: all
	$(Q)test/lint/check_layers.sh src/LAYERS src
	$(Q)test/lint/check_headers.sh
	$(Q)test/lint/check_exports.sh $(BUILD)/lib
	$(Q)test/lint/check_format.sh
	$(Q)test/lint/check_tidy.sh $(JOBS)

# libFuzzer, which needs clang, looks for inputs on which a target of test/fuzz stops; the unit test
# replays its seeds. New inputs stay in the build folder.
FUZZ         := $(BUILD)/fuzz
FUZZ_SECONDS ?= 60
TARGET       ?= topo_system
fuzz:
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(FUZZ) CXX=clang++ SAN=address,fuzzer-no-link \
	  CXXFLAGS='-g -O1 -w -DNCCOM_LIBFUZZER' $(FUZZ)/bin/fuzz_$(TARGET)
	$(Q)mkdir -p $(FUZZ)/corpus/$(TARGET)
	$(FUZZ)/bin/fuzz_$(TARGET) -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -artifact_prefix=$(FUZZ)/ \
	  $(FUZZ)/corpus/$(TARGET) test/fuzz/corpus/$(TARGET)

$(BUILD)/bin/fuzz_%: $(call objects,test/fuzz/%.cc test/fuzz/require.cc test/perf/size.cc) $(CORE)
	@echo "LD  $@"
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -fsanitize=fuzzer $^ $(CORELIBS) -o $@

docs: $(BUILD)/bin/nccom-params
	$(Q)$< > docs/env.md

install: all
	$(Q)install -d $(DESTDIR)$(PREFIX)/{bin,lib/pkgconfig,include/plugin,share/man/man1}
	$(Q)install -m 644 src/include/*.h $(DESTDIR)$(PREFIX)/include
	$(Q)install -m 644 src/include/plugin/*.h $(DESTDIR)$(PREFIX)/include/plugin
	$(Q)install $(LIB) $(PLUGINS) $(DESTDIR)$(PREFIX)/lib
	$(Q)ln -sf libnccom.so.2 $(DESTDIR)$(PREFIX)/lib/libnccom.so
	$(Q)install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	$(Q)install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	$(Q)sed 's|@PREFIX@|$(PREFIX)|' src/libnccom.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/libnccom.pc
	$(Q)install -d $(DESTDIR)$(PREFIX)/share/doc/libnccom
	$(Q)install -m 644 README.md docs/*.md $(DESTDIR)$(PREFIX)/share/doc/libnccom
	@echo "installed below $(DESTDIR)$(PREFIX)"

format:
	$(Q)clang-format -i $$(git ls-files '*.cc' '*.h' '*.c')

clean:
	rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.PHONY: all tests check quickstart deps bench bench-all bench-deps bench-compose verify-all topo-golden bench-topo asan tsan ubsan fuzz lint docs format install clean
.PRECIOUS: $(BUILD)/obj/%.o
