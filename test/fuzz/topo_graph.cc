#include "graph/paths.h"
#include "graph/search.h"
#include "graph/topo.h"
#include "graph/topo_lint.h"
#include "test/fuzz/fuzz.h"

namespace nccom {
namespace {

ncclTopoSystem smallSystem() {
  const auto xml = ncclXml::parse(
      R"(<system version="1"><cpu numaid="0" arch="arm64" affinity="f">
        <pci busid="1" class="0x030000"><gpu dev="0" rank="0" sm="80" gdr="1"/></pci>
        <pci busid="2" class="0x030000"><gpu dev="1" rank="1" sm="80" gdr="1"/></pci>
        <pci busid="3" class="0x020000"><nic><net dev="0" name="n"/><net dev="1" name="m"/></nic></pci>
      </cpu></system>)",
      "s.xml");
  ncclTopoSystem system = ncclTopoGetSystemFromXml(xml.value()).value().system;
  system.inter = true;
  ncclTopoComputePaths(system);
  ncclTopoSearchInit(system);
  return system;
}

}  // namespace

void fuzzTopoGraph(FuzzInput input) {
  const auto xml = ncclXml::parse(textOf(input), "f.xml");
  if (!xml.ok()) return;
  lintTopo(xml.value());
  const ncclTopoSystem system = smallSystem();
  const auto graph = ncclTopoGetGraphFromXml(xml.value(), system, {});
  if (!graph.ok() || graph.value().nChannels < 1) return;
  const auto written = ncclTopoGetXmlFromGraphs({graph.value()}, system);
  fuzzRequire(written.ok(), "a graph that was read can be written");
  const auto again = ncclTopoGetGraphFromXml(written.value(), system, {});
  fuzzRequire(again.ok() && again.value() == graph.value(), "and reads back equal");
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzTopoGraph)
