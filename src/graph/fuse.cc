#include "graph/fuse.h"

#include <iterator>
#include <string_view>

namespace nccom {
namespace {

using pugi::xml_node;

std::ptrdiff_t attributeCount(xml_node node) {
  return std::distance(node.attributes_begin(), node.attributes_end());
}

bool isSameElement(xml_node a, xml_node b) {
  if (std::string_view(a.name()) != b.name()) return false;
  for (const pugi::xml_attribute attribute : b.attributes()) {
    const pugi::xml_attribute other = a.attribute(attribute.name());
    if (!other || std::string_view(other.value()) != attribute.value()) return false;
  }
  return attributeCount(a) == attributeCount(b);
}

void fuseBelow(xml_node into, xml_node from) {
  for (const xml_node child : from.children()) {
    const xml_node same =
        into.find_child([&](xml_node known) { return isSameElement(known, child); });
    if (same) {
      fuseBelow(same, child);
    } else {
      into.append_copy(child);
    }
  }
}

}  // namespace

Status ncclTopoFuseXml(const ncclXml& into, const ncclXml& from) {
  if (!isSameElement(into.root(), from.root())) {
    return fail(ncclInvalidArgument,
                "%s cannot be fused into %s: the root elements <%s> and <%s> differ",
                from.name().c_str(), into.name().c_str(), from.root().name(), into.root().name());
  }
  fuseBelow(into.root(), from.root());
  return Ok{};
}

}  // namespace nccom
