// Internal to graph: reads a <system> document. topo_xml.cc has the tree, topo_links.cc the links.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/topo.h"
#include "graph/topo_findings.h"

namespace nccom {

constexpr int64_t kMloPartBits = 3;  // low bits of a bus id: bit 0 "is a part", bit 1 which part

inline int64_t topoIdOf(int systemId, int64_t localId) {
  return static_cast<int64_t>((static_cast<uint64_t>(systemId) << 56) +
                              static_cast<uint64_t>(localIdOf(localId)));
}

/// Whether an element says anything there: NCCL writes link_width="" where it knows none.
inline bool isStated(pugi::xml_node node, const char* attribute) {
  return node.attribute(attribute).value()[0] != '\0';
}

inline bool isNamed(pugi::xml_node node, std::string_view name) {
  return node.name() == name;
}

/// As ncclTopoGetSystemFromXml, with the findings as they are. They are filled in also when it
/// fails, with what was found until then.
Result<ncclTopoSystem> readSystem(const ncclXml& xml, std::optional<uint64_t> localHostHash,
                                  Findings& findings);

class SystemReader {
 public:
  SystemReader(const ncclXml& xml, Findings& findings) : xml_(xml), findings_(findings) {}

  Status read(std::optional<uint64_t> localHostHash);
  ncclTopoSystem take() { return std::move(system_); }

 private:
  using Type = ncclTopoNodeType;
  using Link = ncclTopoLinkType;
  using xml_node = pugi::xml_node;
  struct Place {  // where in the tree an element stands
    int systemId = 0;
    ncclTopoNodeRef parent;
  };

  Status addCpu(xml_node xmlCpu);
  Status readCpu(xml_node xmlCpu, ncclTopoCpu& cpu);
  Status addPci(xml_node xmlPci, const Place& place);
  Result<ncclTopoPci> readPci(xml_node xmlPci);
  Status addGpu(xml_node xmlPci, xml_node xmlGpu, const Place& place, float bwGBps);
  Result<ncclTopoGpu> readGpu(xml_node xmlPci, xml_node xmlGpu);
  Result<ncclTopoNodeRef> devFor(xml_node xmlPci, const ncclTopoGpu& gpu, const Place& place,
                                 float bwGBps);
  Status addNic(xml_node xmlNic, ncclTopoNodeRef nic, int systemId);
  Status addNet(xml_node xmlNet, Type type, ncclTopoNodeRef nic, int systemId);
  Status readNet(xml_node xmlNet, ncclTopoNode& node);

  Status addLinks(const char* kind);
  Status addDeviceLink(xml_node xmlLink, int systemId);
  Status addNvLink(xml_node xmlLink, ncclTopoNodeRef dev, int systemId);
  Result<float> nvLinkBandwidth(xml_node xmlLink, ncclTopoNodeRef dev) const;
  Status addC2c(xml_node xmlLink, ncclTopoNodeRef dev);
  Status addPciLink(xml_node xmlLink, int systemId);
  void connectCpus();
  void flattenSwitches();
  void flattenSwitch(int index, int generation);
  Status checkReverseLinks() const;
  pugi::xml_node elementOf(ncclTopoNodeRef from, ncclTopoNodeRef to) const;
  void sortBelow(ncclTopoNodeRef node, const ncclTopoNodeRef* up);

  Result<int64_t> busIdOf(xml_node node, const char* attribute) const;
  Result<int> systemIdOfCpu(xml_node xmlCpu);
  std::vector<ncclTopoNodeRef> devsAt(int systemId, int64_t busId) const;
  std::optional<ncclTopoNodeRef> cpuAbove(ncclTopoNodeRef node, const ncclTopoNodeRef* from) const;
  ncclTopoNodeRef create(Type type, int64_t id);
  void connectBoth(ncclTopoNodeRef a, ncclTopoNodeRef b, Link type, float bwGBps);
  void note(xml_node node, const char* attribute, const char* assumed,
            LintSeverity severity = LintSeverity::Warning);
  Result<int> int32Or(xml_node node, const char* attribute, int absent) const;

  const ncclXml& xml_;
  ncclTopoSystem system_;
  Findings& findings_;
};

}  // namespace nccom
