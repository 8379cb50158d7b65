// NCCL's schema of <system> and <graphs> documents as a table, and what in a document is outside.
#pragma once

#include <string_view>

#include "graph/topo_findings.h"
#include "graph/xml.h"

namespace nccom {

enum class AttributeKind : uint8_t {
  Text,
  Int,       // decimal, or hexadecimal after 0x
  Real,      // finite
  Hex,       // with or without 0x
  BusId,     // "0000:cc:01.0"
  PciClass,  // "0x060400"
  PciSpeed,  // as the kernel words it: "16.0 GT/s PCIe"
  CpuMask,   // hexadecimal, comma every 32 bits
  CpuArch,
  CpuVendor,
  PathType,  // "NVL"
};

struct AttributeRule {
  std::string_view name;
  AttributeKind kind = AttributeKind::Text;
  double min = 0;  // of Int and Real: outside, a finding
  double max = 0;
};

/// The rule for an attribute of an element below `root` ("system" or "graphs"); null: the schema
/// has none.
const AttributeRule* findAttributeRule(std::string_view root, std::string_view element,
                                       std::string_view attribute);

/// Adds a finding for every element, attribute and text that the schema does not know, and every
/// value that is not of its kind or out of its range. Nothing that is absent is a finding here.
void checkSchema(const ncclXml& xml, Findings& findings);

/// A finding at an element.
LintFinding findingAt(const ncclXml& xml, pugi::xml_node node, LintSeverity severity,
                      std::string text, std::string assumed = "");

}  // namespace nccom
