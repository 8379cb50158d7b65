#include "graph/xml.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <set>

namespace nccom {
namespace {

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

// A topology of 65,536 devices is some 20 MB; beyond this the path names something else
// (/dev/zero).
constexpr size_t kMaxFileBytes = size_t{256} << 20;

std::vector<int64_t> findLineStarts(std::string_view text) {
  std::vector<int64_t> starts = {0};
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\n') starts.push_back(static_cast<int64_t>(i) + 1);
  }
  return starts;
}

std::string position(const std::string& name, const std::vector<int64_t>& lineStarts,
                     int64_t offset) {
  const auto after = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
  const auto line = after - lineStarts.begin();
  const auto column = offset - *(after - 1) + 1;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

/// Next node of a depth-first walk without recursion; `depth` follows. Null at the end.
pugi::xml_node nextInWalk(pugi::xml_node node, pugi::xml_node root, int& depth) {
  if (node.first_child()) {
    depth++;
    return node.first_child();
  }
  while (node != root && !node.next_sibling()) {
    node = node.parent();
    depth--;
  }
  return node == root ? pugi::xml_node() : node.next_sibling();
}

/// What pugixml lets pass and we do not: deep nesting, an attribute given twice.
Status checkShape(const ncclXml& xml) {
  int depth = 1;
  for (pugi::xml_node node = xml.root(); node; node = nextInWalk(node, xml.root(), depth)) {
    if (depth > kMaxXmlDepth) {
      return fail(ncclInvalidUsage, "%s: <%s> is nested more than %d levels deep",
                  xml.where(node).c_str(), node.name(), kMaxXmlDepth);
    }
    std::set<std::string_view> seen;
    for (const pugi::xml_attribute attribute : node.attributes()) {
      if (!seen.insert(attribute.name()).second) {
        return fail(ncclInvalidUsage, "%s: <%s> has the attribute %s twice",
                    xml.where(node).c_str(), node.name(), attribute.name());
      }
    }
  }
  return Ok{};
}

void appendEscaped(std::string& out, const char* value) {
  for (const char* c = value; *c != '\0'; c++) {
    switch (*c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      case '\r':
        out += "&#13;";
        break;
      case '\t':
        out += "&#9;";
        break;
      default:
        out += *c;
    }
  }
}

bool hasElements(pugi::xml_node node) {
  for (const pugi::xml_node child : node.children()) {
    if (child.type() == pugi::node_element) return true;
  }
  return false;
}

void appendText(std::string& out, pugi::xml_node node, int depth) {
  const std::string indent(2 * static_cast<size_t>(depth), ' ');
  out += indent + "<" + node.name();
  for (const pugi::xml_attribute attribute : node.attributes()) {
    out += std::string(" ") + attribute.name() + "=\"";
    appendEscaped(out, attribute.value());
    out += '"';
  }
  if (!hasElements(node)) {
    out += "/>\n";
    return;
  }
  out += ">\n";
  for (const pugi::xml_node child : node.children()) {
    if (child.type() == pugi::node_element) appendText(out, child, depth + 1);
  }
  out += indent + "</" + node.name() + ">\n";
}

Error malformed(const ncclXml& xml, pugi::xml_node node, const char* attribute,
                const char* wanted) {
  return fail(ncclInvalidUsage, "%s: attribute %s=\"%.80s\" of <%s> is not %s",
              xml.where(node).c_str(), attribute, node.attribute(attribute).value(), node.name(),
              wanted);
}

Error missing(const ncclXml& xml, pugi::xml_node node, const char* attribute) {
  return fail(ncclInvalidUsage, "%s: <%s> lacks the attribute %s", xml.where(node).c_str(),
              node.name(), attribute);
}

template <std::floating_point T>
std::string shortest(T value) {
  std::array<char, 64> text = {};  // holds any value
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), result.ptr);
}

/// Decimal, or hexadecimal after 0x, with an optional sign: the whole of `text`.
bool parseInt(std::string_view text, int64_t* value) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const bool isHex = text.starts_with("0x") || text.starts_with("0X");
  if (isHex) text.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, isHex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (!isHex && magnitude > static_cast<uint64_t>(INT64_MAX)) return false;
  *value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  return true;
}

}  // namespace

Result<ncclXml> ncclXml::parse(std::string text, std::string name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // a BOM would shift all offsets
  ncclXml xml;
  xml.name_ = std::move(name);
  xml.lineStarts_ = findLineStarts(text);
  const pugi::xml_parse_result parsed = xml.document_->load_buffer(
      text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    return fail(ncclInvalidUsage, "%s: %s",
                position(xml.name_, xml.lineStarts_, parsed.offset).c_str(), parsed.description());
  }
  if (!xml.root()) return fail(ncclInvalidUsage, "%s: no XML element in it", xml.name_.c_str());
  for (const pugi::xml_node sibling : xml.document_->children()) {
    if (sibling.type() == pugi::node_element && sibling != xml.root()) {
      return fail(ncclInvalidUsage, "%s: a second root element <%s>", xml.where(sibling).c_str(),
                  sibling.name());
    }
  }
  TRY(checkShape(xml));
  return xml;
}

Result<std::string> ncclXml::readText(const std::string& path) {
  const File file(fopen(path.c_str(), "rbe"), fclose);
  if (file == nullptr) {
    return fail(ncclSystemError, "cannot open %s: %s", path.c_str(), strerror(errno));
  }
  struct stat info = {};
  if (fstat(fileno(file.get()), &info) == 0 && S_ISDIR(info.st_mode)) {
    return fail(ncclInvalidUsage, "%s is a directory; expected an XML file", path.c_str());
  }
  std::string text;
  std::array<char, 65536> piece = {};
  while (const size_t n = fread(piece.data(), 1, piece.size(), file.get())) {
    text.append(piece.data(), n);
    if (text.size() > kMaxFileBytes) {
      return fail(ncclInvalidUsage, "%s is larger than %zu bytes; expected an XML file",
                  path.c_str(), kMaxFileBytes);
    }
  }
  if (ferror(file.get()) != 0) {
    return fail(ncclSystemError, "cannot read %s: %s", path.c_str(), strerror(errno));
  }
  if (text.empty()) {
    return fail(ncclInvalidUsage, "%s is empty; expected an XML file", path.c_str());
  }
  return text;
}

Result<ncclXml> ncclXml::readFile(const std::string& path) {
  return parse(TRY(readText(path)), path);
}

ncclXml ncclXml::create(const char* rootName) {
  ncclXml xml;
  xml.name_ = "(made here)";
  setXml(xml.document_->append_child(rootName), "version", kXmlVersion);
  return xml;
}

std::string ncclXml::where(pugi::xml_node node) const {
  const int64_t offset = lineStarts_.empty() ? -1 : node.offset_debug();
  // offset_debug is the tag name's offset; the element starts at the '<' before it.
  if (offset > 0) return position(name_, lineStarts_, offset - 1);
  return name_ + ": <" + node.name() + ">";
}

std::string ncclXml::toText() const {
  std::string out;
  appendText(out, root(), 0);
  return out;
}

Status ncclXml::writeFile(const std::string& path) const {
  File file(fopen(path.c_str(), "wbe"), fclose);
  if (file == nullptr) {
    return fail(ncclSystemError, "cannot open %s for writing: %s", path.c_str(), strerror(errno));
  }
  const std::string text = toText();
  const bool written = fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (fclose(file.release()) != 0 || !written) {
    return fail(ncclSystemError, "cannot write %s: %s", path.c_str(), strerror(errno));
  }
  return Ok{};
}

bool sameXml(pugi::xml_node a, pugi::xml_node b) {
  const auto nextElement = [](pugi::xml_node node) {
    while (node && node.type() != pugi::node_element)
      node = node.next_sibling();
    return node;
  };
  if (std::string_view(a.name()) != b.name()) return false;
  pugi::xml_attribute attributeB = b.first_attribute();
  for (const pugi::xml_attribute attributeA : a.attributes()) {
    if (std::string_view(attributeA.name()) != attributeB.name()) return false;
    if (std::string_view(attributeA.value()) != attributeB.value()) return false;
    attributeB = attributeB.next_attribute();
  }
  if (attributeB) return false;
  pugi::xml_node childA = nextElement(a.first_child());
  pugi::xml_node childB = nextElement(b.first_child());
  while (childA && childB && sameXml(childA, childB)) {
    childA = nextElement(childA.next_sibling());
    childB = nextElement(childB.next_sibling());
  }
  return !childA && !childB;
}

Status checkRoot(const ncclXml& xml, const char* rootName) {
  const pugi::xml_node root = xml.root();
  if (std::string_view(root.name()) != rootName) {
    return fail(ncclInvalidUsage, "%s: found <%s>, expected <%s>", xml.where(root).c_str(),
                root.name(), rootName);
  }
  const int64_t version = TRY(xmlInt(xml, root, "version"));
  if (version != kXmlVersion) {
    return fail(ncclInvalidUsage, "%s: <%s> has version %lld, expected %d", xml.where(root).c_str(),
                rootName, static_cast<long long>(version), kXmlVersion);
  }
  return Ok{};
}

Result<std::string> xmlText(const ncclXml& xml, pugi::xml_node node, const char* attribute) {
  const pugi::xml_attribute found = node.attribute(attribute);
  if (!found) return missing(xml, node, attribute);
  return std::string(found.value());
}

Result<int64_t> xmlInt(const ncclXml& xml, pugi::xml_node node, const char* attribute) {
  if (!node.attribute(attribute)) return missing(xml, node, attribute);
  return xmlIntOr(xml, node, attribute, 0);
}

Result<int64_t> xmlIntOr(const ncclXml& xml, pugi::xml_node node, const char* attribute,
                         int64_t absent) {
  const pugi::xml_attribute found = node.attribute(attribute);
  if (!found) return absent;
  int64_t value = 0;
  if (!parseInt(found.value(), &value)) return malformed(xml, node, attribute, "an integer");
  return value;
}

Result<int> xmlInt32(const ncclXml& xml, pugi::xml_node node, const char* attribute) {
  if (!node.attribute(attribute)) return missing(xml, node, attribute);
  return xmlInt32Or(xml, node, attribute, 0);
}

Result<int> xmlInt32Or(const ncclXml& xml, pugi::xml_node node, const char* attribute, int absent) {
  const int64_t value = TRY(xmlIntOr(xml, node, attribute, absent));
  if (value < INT_MIN || value > INT_MAX) {
    return malformed(xml, node, attribute, "an integer of 32 bits");
  }
  return static_cast<int>(value);
}

Result<double> xmlReal(const ncclXml& xml, pugi::xml_node node, const char* attribute) {
  if (!node.attribute(attribute)) return missing(xml, node, attribute);
  return xmlRealOr(xml, node, attribute, 0);
}

Result<double> xmlRealOr(const ncclXml& xml, pugi::xml_node node, const char* attribute,
                         double absent) {
  const pugi::xml_attribute found = node.attribute(attribute);
  if (!found) return absent;
  const std::string_view text = found.value();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool isFinite = value - value == 0;
  if (error != std::errc() || end != text.data() + text.size() || !isFinite) {
    return malformed(xml, node, attribute, "a finite number");
  }
  return value;
}

void setXml(pugi::xml_node node, const char* attribute, const std::string& value) {
  pugi::xml_attribute found = node.attribute(attribute);
  if (!found) found = node.append_attribute(attribute);
  found.set_value(value.c_str());
}

void setXml(pugi::xml_node node, const char* attribute, float value) {
  setXml(node, attribute, shortest(value));
}

void setXml(pugi::xml_node node, const char* attribute, double value) {
  setXml(node, attribute, shortest(value));
}

}  // namespace nccom
