#include "graph/topo_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "graph/topo.h"

namespace nccom {
namespace {

using pugi::xml_node;
using Kind = AttributeKind;

struct ElementRule {
  std::string_view name;
  std::span<const AttributeRule> attributes;
  std::span<const std::string_view> children;
};

constexpr double kAny = INT_MAX;
constexpr double kMaxDev = 65535;

constexpr std::array kSystemAttributes = {AttributeRule{"version", Kind::Int, 1, 1},
                                          AttributeRule{"name", Kind::Text}};
constexpr std::array kCpuAttributes = {
    AttributeRule{"numaid", Kind::Int, -1, kMaxDev}, AttributeRule{"host_hash", Kind::Hex},
    AttributeRule{"affinity", Kind::CpuMask},        AttributeRule{"arch", Kind::CpuArch},
    AttributeRule{"vendor", Kind::CpuVendor},        AttributeRule{"familyid", Kind::Int, 0, 4095},
    AttributeRule{"modelid", Kind::Int, 0, 4095}};
constexpr std::array kPciAttributes = {AttributeRule{"busid", Kind::BusId},
                                       AttributeRule{"class", Kind::PciClass},
                                       AttributeRule{"vendor", Kind::Int, 0, 0xffff},
                                       AttributeRule{"device", Kind::Int, 0, 0xffff},
                                       AttributeRule{"subsystem_vendor", Kind::Int, 0, 0xffff},
                                       AttributeRule{"subsystem_device", Kind::Int, 0, 0xffff},
                                       AttributeRule{"link_speed", Kind::PciSpeed},
                                       AttributeRule{"link_width", Kind::Int, 0, 1024},
                                       AttributeRule{"keep", Kind::Int, 0, 1}};
constexpr std::array kGpuAttributes = {
    AttributeRule{"dev", Kind::Int, 0, kMaxDev}, AttributeRule{"sm", Kind::Int, 0, 999},
    AttributeRule{"rank", Kind::Int, 0, kAny},   AttributeRule{"gdr", Kind::Int, 0, 1},
    AttributeRule{"mlopart", Kind::Int, -1, 1},  AttributeRule{"keep", Kind::Int, 0, 1}};
constexpr std::array kNvlinkAttributes = {
    AttributeRule{"target", Kind::Text}, AttributeRule{"count", Kind::Int, 1, 1024},
    AttributeRule{"tclass", Kind::PciClass}, AttributeRule{"bw", Kind::Real, 1, 1e7}};
constexpr std::array kC2cAttributes = {AttributeRule{"bw", Kind::Int, 1, 1e7},
                                       AttributeRule{"count", Kind::Int, 1, 1024}};
constexpr std::array kNicAttributes = {AttributeRule{"keep", Kind::Int, 0, 1}};
constexpr std::array kNetAttributes = {AttributeRule{"name", Kind::Text},
                                       AttributeRule{"dev", Kind::Int, 0, kMaxDev},
                                       AttributeRule{"latency", Kind::Real, 0, 1e6},
                                       AttributeRule{"speed", Kind::Int, -1, 1e8},
                                       AttributeRule{"port", Kind::Int, 0, 255},
                                       AttributeRule{"guid", Kind::Hex},
                                       AttributeRule{"maxconn", Kind::Int, 1, kAny},
                                       AttributeRule{"gdr", Kind::Int, 0, 1},
                                       AttributeRule{"coll", Kind::Int, 0, 1},
                                       AttributeRule{"net", Kind::Int, 0, 1},
                                       AttributeRule{"gin", Kind::Int, 0, 1},
                                       AttributeRule{"rma", Kind::Int, 0, 1},
                                       AttributeRule{"rail", Kind::Int, -1, kMaxDev},
                                       AttributeRule{"plane", Kind::Int, -1, kMaxDev},
                                       AttributeRule{"keep", Kind::Int, 0, 1}};
constexpr std::array kPcilinkAttributes = {AttributeRule{"target", Kind::BusId}};

constexpr std::array<std::string_view, 1> kInSystem = {"cpu"};
constexpr std::array<std::string_view, 2> kInCpu = {"pci", "nic"};
constexpr std::array<std::string_view, 4> kInPci = {"pci", "gpu", "nic", "pcilink"};
constexpr std::array<std::string_view, 2> kInGpu = {"nvlink", "c2c"};
constexpr std::array<std::string_view, 1> kInNic = {"net"};

constexpr std::array<ElementRule, 9> kSystemElements = {{{"system", kSystemAttributes, kInSystem},
                                                         {"cpu", kCpuAttributes, kInCpu},
                                                         {"pci", kPciAttributes, kInPci},
                                                         {"gpu", kGpuAttributes, kInGpu},
                                                         {"nvlink", kNvlinkAttributes, {}},
                                                         {"c2c", kC2cAttributes, {}},
                                                         {"nic", kNicAttributes, kInNic},
                                                         {"net", kNetAttributes, {}},
                                                         {"pcilink", kPcilinkAttributes, {}}}};

constexpr std::array kGraphsAttributes = {AttributeRule{"version", Kind::Int, 1, 1}};
constexpr std::array kGraphAttributes = {AttributeRule{"id", Kind::Int, 0, 6},
                                         AttributeRule{"pattern", Kind::Int, 1, 6},
                                         AttributeRule{"crossnic", Kind::Int, 0, 2},
                                         AttributeRule{"nchannels", Kind::Int, 0, 64},
                                         AttributeRule{"speedintra", Kind::Real, 0, 1e5},
                                         AttributeRule{"speedinter", Kind::Real, 0, 1e5},
                                         AttributeRule{"latencyinter", Kind::Real, 0, 1e6},
                                         AttributeRule{"typeintra", Kind::PathType},
                                         AttributeRule{"typeinter", Kind::PathType},
                                         AttributeRule{"samechannels", Kind::Int, 0, 1}};
constexpr std::array kChannelNetAttributes = {AttributeRule{"dev", Kind::Hex}};
constexpr std::array kChannelGpuAttributes = {AttributeRule{"dev", Kind::Hex},
                                              AttributeRule{"rank", Kind::Int, 0, kAny}};
constexpr std::array<std::string_view, 1> kInGraphs = {"graph"};
constexpr std::array<std::string_view, 1> kInGraph = {"channel"};
constexpr std::array<std::string_view, 2> kInChannel = {"net", "gpu"};

constexpr std::array<ElementRule, 5> kGraphsElements = {{{"graphs", kGraphsAttributes, kInGraphs},
                                                         {"graph", kGraphAttributes, kInGraph},
                                                         {"channel", {}, kInChannel},
                                                         {"net", kChannelNetAttributes, {}},
                                                         {"gpu", kChannelGpuAttributes, {}}}};

std::span<const ElementRule> elementsBelow(std::string_view root) {
  if (root == "graphs") return kGraphsElements;
  if (root == "system") return kSystemElements;
  return {};
}

const ElementRule* findElement(std::string_view root, std::string_view element) {
  const auto rules = elementsBelow(root);
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const ElementRule& rule) { return rule.name == element; });
  return found == rules.end() ? nullptr : &*found;
}

bool isOneOf(std::string_view text, std::span<const std::string_view> known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

bool isHexDigits(std::string_view text, std::string_view alsoAllowed) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return isxdigit(static_cast<unsigned char>(c)) != 0 ||
           alsoAllowed.find(c) != std::string_view::npos;
  });
}

/// What is wrong with a text value; empty: nothing.
std::string complaintAboutText(Kind kind, const std::string& value) {
  static constexpr std::array<std::string_view, 3> kArchs = {"x86_64", "arm64", "ppc64"};
  static constexpr std::array<std::string_view, 4> kVendors = {"GenuineIntel", "AuthenticAMD",
                                                               "CentaurHauls", "  Shanghai  "};
  switch (kind) {
    case Kind::Hex:
      return hexToInt64(value) ? "" : "not hexadecimal";
    case Kind::BusId:
      return busIdToInt64(value) ? "" : "not a PCI bus id";
    case Kind::PciClass:
      return value.starts_with("0x") && hexToInt64(value) ? "" : "not a PCI class";
    case Kind::PciSpeed:
      return value.empty() || isKnownPciSpeed(value) ? "" : "no link speed that is known";
    case Kind::CpuMask:
      return isHexDigits(value, ",") ? "" : "not a hexadecimal mask";
    case Kind::CpuArch:
      return isOneOf(value, kArchs) ? "" : "none of x86_64, arm64, ppc64";
    case Kind::CpuVendor:
      return isOneOf(value, kVendors) ? "" : "none of GenuineIntel, AuthenticAMD, CentaurHauls";
    case Kind::PathType:
      return pathTypeFromText(value) ? "" : "no path type";
    case Kind::Text:
    case Kind::Int:
    case Kind::Real:
      return "";
  }
  return "";
}

/// What a text value that is not of its kind counts as.
std::string assumedForText(Kind kind) {
  switch (kind) {
    case Kind::PciClass:
      return "a PCI switch";
    case Kind::PciSpeed:
      return "8 GT/s";
    case Kind::CpuArch:
      return "an unknown CPU";
    case Kind::CpuVendor:
      return "an unknown vendor";
    case Kind::Text:
    case Kind::Int:
    case Kind::Real:
    case Kind::Hex:
    case Kind::BusId:
    case Kind::CpuMask:
    case Kind::PathType:
      return "";
  }
  return "";
}

std::string shortNumber(double value) {
  std::array<char, 40> text = {};
  snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

class SchemaCheck {
 public:
  SchemaCheck(const ncclXml& xml, Findings& findings)
      : xml_(xml), root_(xml.root().name()), findings_(findings) {}

  void checkElement(xml_node node) {
    const ElementRule* rule = findElement(root_, node.name());
    if (rule == nullptr) return;
    for (const pugi::xml_attribute attribute : node.attributes())
      checkAttribute(node, attribute);
    for (const xml_node child : node.children()) {
      if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
        say("text in " + nameOf(node), node, LintSeverity::Warning,
            "text \"" + std::string(child.value()).substr(0, 40) + "\" in " + nameOf(node) +
                " has no meaning; NCCL refuses the file");
      }
      if (child.type() != pugi::node_element || isOneOf(child.name(), rule->children)) continue;
      say(nameOf(child) + " in " + nameOf(node), child, LintSeverity::Warning,
          nameOf(child) + " in " + nameOf(node) + " is not part of the schema; it is left out");
    }
  }

 private:
  static std::string nameOf(xml_node node) { return "<" + std::string(node.name()) + ">"; }

  void say(const std::string& kind, xml_node node, LintSeverity severity, std::string text,
           std::string assumed = "") {
    findings_.addOnce(kind, findingAt(xml_, node, severity, std::move(text), std::move(assumed)));
  }

  void checkAttribute(xml_node node, pugi::xml_attribute attribute) {
    const std::string shown =
        std::string(attribute.name()) + "=\"" + std::string(attribute.value()).substr(0, 80) + "\"";
    const AttributeRule* rule = findAttributeRule(root_, node.name(), attribute.name());
    if (rule == nullptr) {
      say("unknown " + nameOf(node) + attribute.name(), node, LintSeverity::Note,
          "attribute " + shown + " of " + nameOf(node) + " is not part of the schema");
      return;
    }
    if (rule->kind == Kind::Int || rule->kind == Kind::Real) {
      checkNumber(node, *rule, shown);
      return;
    }
    const std::string complaint = complaintAboutText(rule->kind, attribute.value());
    if (complaint.empty()) return;
    say("value " + nameOf(node) + shown, node, LintSeverity::Warning,
        "attribute " + shown + " of " + nameOf(node) + " is " + complaint,
        assumedForText(rule->kind));
  }

  void checkNumber(xml_node node, const AttributeRule& rule, const std::string& shown) {
    const std::string name(rule.name);
    if (node.attribute(name.c_str()).value()[0] == '\0') {
      say("empty " + nameOf(node) + name, node, LintSeverity::Warning,
          "attribute " + name + " of " + nameOf(node) + " is empty", "it is not there");
      return;
    }
    const auto number = rule.kind == Kind::Real ? xmlReal(xml_, node, name.c_str())
                                                : Result<double>(asReal(node, name));
    if (!number.ok()) {
      say("number " + nameOf(node) + shown, node, LintSeverity::Warning,
          "attribute " + shown + " of " + nameOf(node) + " is no number");
      return;
    }
    if (number.value() >= rule.min && number.value() <= rule.max) return;
    say("range " + nameOf(node) + shown, node, LintSeverity::Warning,
        "attribute " + shown + " of " + nameOf(node) + " is out of its range " +
            shortNumber(rule.min) + " to " + shortNumber(rule.max));
  }

  Result<double> asReal(xml_node node, const std::string& name) {
    const int64_t value = TRY(xmlInt(xml_, node, name.c_str()));
    return static_cast<double>(value);
  }

  const ncclXml& xml_;
  std::string root_;
  Findings& findings_;
};

}  // namespace

const AttributeRule* findAttributeRule(std::string_view root, std::string_view element,
                                       std::string_view attribute) {
  const ElementRule* rule = findElement(root, element);
  if (rule == nullptr) return nullptr;
  for (const AttributeRule& candidate : rule->attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

LintFinding findingAt(const ncclXml& xml, xml_node node, LintSeverity severity, std::string text,
                      std::string assumed) {
  return {severity, xml.where(node), std::move(text), std::move(assumed)};
}

void checkSchema(const ncclXml& xml, Findings& findings) {
  SchemaCheck check(xml, findings);
  xml_node node = xml.root();
  while (node) {
    check.checkElement(node);
    // Depth first, without recursion: the document's nesting is not ours to bound.
    if (node.first_child()) {
      node = node.first_child();
      continue;
    }
    while (node && node != xml.root() && !node.next_sibling())
      node = node.parent();
    if (!node || node == xml.root()) break;
    node = node.next_sibling();
  }
}

}  // namespace nccom
