// What a careful reviewer would say about a topology or graph file, before anybody relies on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/topo_findings.h"
#include "graph/xml.h"

namespace nccom {

/// Everything worth saying about a <system> or <graphs> document: elements and attributes outside
/// the schema, what is missing and what is assumed instead, numbers out of range, ids used twice,
/// links that lead nowhere or differ between their ends, nodes that nothing reaches. What the
/// readers refuse is an Error; a document without one can be read. A thing that holds in many
/// places is said once, with their number.
std::vector<LintFinding> lintTopo(const ncclXml& xml);

/// The same for a file, and what NCCL's own parser, which knows less of XML, would refuse in its
/// text. A file that cannot be read, or is no XML, has one finding: an Error.
std::vector<LintFinding> lintTopoFile(const std::string& path);

/// The part of lintTopoFile about the text alone, which must be well-formed.
/// @param name  stands for the file in `where`
void lintText(std::string_view text, const std::string& name, Findings& findings);

/// The parts of lintTopo about a document with this root.
void lintSystem(const ncclXml& xml, Findings& findings);
void lintGraphs(const ncclXml& xml, Findings& findings);

}  // namespace nccom
