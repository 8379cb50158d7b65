#include <cstring>

#include "graph/cluster.h"
#include "misc/params.h"
#include "test/fuzz/fuzz.h"
#include "test/perf/size.h"

namespace nccom {

void fuzzParameters(FuzzInput input) {
  const std::string text = textOf(input);
  const auto params = readParams([&](const char*) { return text.c_str(); });
  if (params.ok()) (void)logConfigOf(params.value()).ok();
  (void)perf::parseSize(text).ok();
  (void)findPlatform(text).ok();
  const auto cluster = parseCluster(text, 0, 4);
  if (!cluster.ok()) return;
  const int nDevices = cluster.value().deviceCount();
  fuzzRequire(nDevices >= cluster.value().hostCount(), "each host of a cluster has a device");
  fuzzRequire(cluster.value().place(nDevices - 1).ok(), "the last device has a place");
  fuzzRequire(!cluster.value().place(nDevices).ok(), "and no further one");
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzParameters)
