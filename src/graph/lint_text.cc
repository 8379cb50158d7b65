// NCCL's parser takes a subset of XML: what of a well-formed text it refuses or reads otherwise.
#include <algorithm>
#include <string>
#include <utility>

#include "graph/topo_lint.h"

namespace nccom {
namespace {

// @source NCCL 2.30: lengths and counts of its parser
constexpr size_t kMaxValueBytes = 253;
constexpr int kMaxAttributes = 16;
constexpr int kMaxChildren = 640;
constexpr int kMaxElements = 256;  // NCCL_TOPO_XML_MAX_NODES

class TextLint {
 public:
  TextLint(std::string_view text, const std::string& name, Findings& findings)
      : text_(text), name_(name), findings_(findings) {}

  void run() {
    if (text_.starts_with("\xEF\xBB\xBF")) {
      say("the file starts with a byte order mark");
      at_ = 3;
    }
    while (at_ < text_.size()) {
      if (text_[at_] == '<') {
        markup();
      } else {
        if (text_[at_] == '\t') say("a tab stands between elements");
        advance(1);
      }
    }
    if (nElements_ > kMaxElements) {
      say("the file has " + std::to_string(nElements_) + " elements; NCCL keeps at most " +
          std::to_string(kMaxElements) + " a process");
    }
  }

 private:
  bool startsWith(std::string_view token) const { return text_.substr(at_).starts_with(token); }

  void advance(size_t bytes) {
    for (size_t i = 0; i < bytes && at_ < text_.size(); i++, at_++) {
      column_++;
      if (text_[at_] != '\n') continue;
      line_++;
      column_ = 1;
    }
  }

  void skipPast(std::string_view token) {
    const size_t end = text_.find(token, at_);
    advance(end == std::string_view::npos ? text_.size() - at_ : end + token.size() - at_);
  }

  void say(const std::string& text, const char* consequence = "NCCL refuses the file") {
    const std::string where = name_ + ":" + std::to_string(line_) + ":" + std::to_string(column_);
    findings_.addOnce(text, {LintSeverity::Warning, where, text + "; " + consequence, ""});
  }

  void markup() {
    if (startsWith("<!--")) {
      skipPast("-->");
    } else if (startsWith("<?")) {
      say("the file has a prolog <?...?>");
      skipPast("?>");
    } else if (startsWith("<![CDATA[")) {
      skipPast("]]>");
    } else if (startsWith("<!")) {
      say("the file has a document type <!...>");
      skipPast(">");
    } else if (startsWith("</")) {
      if (!children_.empty()) children_.pop_back();
      skipPast(">");
    } else {
      element();
    }
  }

  void element() {
    nElements_++;
    if (!children_.empty() && ++children_.back() == kMaxChildren + 1)
      say("an element has more than " + std::to_string(kMaxChildren) + " children");
    size_t end = std::min(text_.find_first_of(" \t\r\n/>", at_), text_.size());
    advance(end - at_);
    int nAttributes = 0;
    while (at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/') {
      if (text_[at_] != ' ')
        say("an attribute of an element follows on a tab or a line break, not on a space");
      end = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
      advance(end - at_);
      if (at_ == text_.size() || text_[at_] == '>' || text_[at_] == '/') break;
      attribute();
      if (++nAttributes == kMaxAttributes + 1) {
        say("an element has more than " + std::to_string(kMaxAttributes) + " attributes",
            "NCCL leaves out the others");
      }
    }
    const bool isEmpty = at_ < text_.size() && text_[at_] == '/';
    skipPast(">");
    if (!isEmpty) children_.push_back(0);
  }

  void attribute() {
    const size_t quote = text_.find_first_of("\"'", at_);
    if (quote == std::string_view::npos) return advance(text_.size() - at_);
    if (text_.substr(at_, quote - at_).find_first_of(" \t\r\n") != std::string_view::npos)
      say("white space stands around the '=' of an attribute");
    const size_t end = std::min(text_.find(text_[quote], quote + 1), text_.size());
    const std::string_view value = text_.substr(quote + 1, end - quote - 1);
    if (value.size() > kMaxValueBytes) {
      say("the value of an attribute is longer than " + std::to_string(kMaxValueBytes) + " bytes");
    }
    if (value.find('&') != std::string_view::npos)
      say("the value of an attribute has an entity such as &amp;", "NCCL takes it as it stands");
    advance(end + 1 - at_);
  }

  std::string_view text_;
  std::string name_;
  Findings& findings_;
  size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  int nElements_ = 0;
  std::vector<int> children_;  // of each open element, so far
};

}  // namespace

void lintText(std::string_view text, const std::string& name, Findings& findings) {
  TextLint(text, name, findings).run();
}

}  // namespace nccom
