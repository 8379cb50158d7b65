// Topology and graph files: an XML document in NCCL's schema, and errors that say where in the
// file.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <pugixml.hpp>

#include "misc/result.h"

namespace nccom {

/// A document with one root element (<system> or <graphs>). Movable; nodes handed out by root()
/// stay valid as long as it lives. Nodes, attributes and lengths are not limited; only the nesting
/// is (kMaxXmlDepth), so that a hostile file cannot exhaust the stack.
class ncclXml {
 public:
  /// Parses `text`. `name` stands for it in messages.
  /// @error ncclInvalidUsage  not well-formed, not one root element, a repeated attribute, too deep
  static Result<ncclXml> parse(std::string text, std::string name);

  /// The content of a file.
  /// @error ncclSystemError   the file cannot be opened or read (errno's words)
  /// @error ncclInvalidUsage  empty, a directory, or larger than any topology
  static Result<std::string> readText(const std::string& path);

  /// @error as readText() and parse()
  static Result<ncclXml> readFile(const std::string& path);

  /// A new document with an empty root element <rootName version="1">.
  static ncclXml create(const char* rootName);

  pugi::xml_node root() const { return document_->document_element(); }
  const std::string& name() const { return name_; }

  /// "file:line:column" of a parsed node; "file: <tag>" of one that was added later.
  std::string where(pugi::xml_node node) const;

  /// The document as text: two spaces a level, attributes as they stand, no prolog (NCCL reads
  /// none). parse(toText()) gives an equal document.
  std::string toText() const;

  /// @error ncclSystemError  the file cannot be written (errno's words)
  Status writeFile(const std::string& path) const;

 private:
  std::unique_ptr<pugi::xml_document> document_ = std::make_unique<pugi::xml_document>();
  std::string name_;
  std::vector<int64_t> lineStarts_;  // offset of each line's first character; empty: not parsed
};

constexpr int kMaxXmlDepth = 256;
constexpr int kXmlVersion = 1;  // of <system> and of <graphs>; NCCL refuses any other

/// Whether two documents have equal elements, attributes (in order) and nesting.
bool sameXml(pugi::xml_node a, pugi::xml_node b);

/// Fails unless the root is <rootName version="1">.
Status checkRoot(const ncclXml& xml, const char* rootName);

// ---- attributes: a missing or malformed one is an error that names file, element, attribute ----
Result<std::string> xmlText(const ncclXml& xml, pugi::xml_node node, const char* attribute);
Result<int64_t> xmlInt(const ncclXml& xml, pugi::xml_node node, const char* attribute);
Result<double> xmlReal(const ncclXml& xml, pugi::xml_node node, const char* attribute);

// The same with a value for an absent attribute; what is there must still be well-formed.
Result<int64_t> xmlIntOr(const ncclXml& xml, pugi::xml_node node, const char* attribute,
                         int64_t absent);
Result<double> xmlRealOr(const ncclXml& xml, pugi::xml_node node, const char* attribute,
                         double absent);

/// A 32-bit value of xmlInt / xmlIntOr; out of range is malformed.
Result<int> xmlInt32(const ncclXml& xml, pugi::xml_node node, const char* attribute);
Result<int> xmlInt32Or(const ncclXml& xml, pugi::xml_node node, const char* attribute, int absent);

/// Sets an attribute, adding it when absent.
void setXml(pugi::xml_node node, const char* attribute, const std::string& value);
template <std::integral T>
void setXml(pugi::xml_node node, const char* attribute, T value) {
  setXml(node, attribute, std::to_string(value));
}
/// The shortest decimal that reads back as the same value.
void setXml(pugi::xml_node node, const char* attribute, float value);
void setXml(pugi::xml_node node, const char* attribute, double value);

}  // namespace nccom
