#include "graph/paths.h"
#include "graph/search.h"
#include "graph/topo.h"
#include "graph/topo_lint.h"
#include "test/fuzz/fuzz.h"

namespace nccom {

void fuzzTopoSystem(FuzzInput input) {
  const std::string text = textOf(input);
  const auto xml = ncclXml::parse(text, "f.xml");
  if (!xml.ok()) return;
  Findings findings;
  lintText(text, "f.xml", findings);
  bool hasErrors = false;
  for (const LintFinding& finding : lintTopo(xml.value()))
    hasErrors |= finding.severity == LintSeverity::Error;
  auto loaded = ncclTopoGetSystemFromXml(xml.value());
  fuzzRequire(loaded.ok() || hasErrors, "lint has an error for what the reader refuses");
  if (!loaded.ok()) return;
  ncclTopoSystem& system = loaded.value().system;
  const auto written = ncclTopoGetXmlFromSystem(system);
  if (written.ok()) {
    fuzzRequire(ncclTopoGetSystemFromXml(written.value()).ok(), "what was written can be read");
  }
  ncclTopoComputePaths(system);
  ncclTopoSearchInit(system);
  ncclTopoPrint(system);
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzTopoSystem)
