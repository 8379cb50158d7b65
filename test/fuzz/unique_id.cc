#include <algorithm>
#include <regex>

#include "comm/bootstrap_wire.h"
#include "test/fuzz/fuzz.h"

namespace nccom {
namespace {

/// Names of hosts are left out: looking them up would leave the machine.
bool isNumeric(const std::string& text) {
  static const std::regex kNumeric("\\[[^\n]{0,80}|[0-9]{1,3}(\\.[0-9]{1,3}){3}:.{0,20}");
  return std::regex_match(text, kNumeric);
}

}  // namespace

void fuzzUniqueId(FuzzInput input) {
  ncclUniqueId id = {};
  std::copy_n(input.begin(), std::min(input.size(), sizeof id), reinterpret_cast<uint8_t*>(&id));
  if (const auto content = unpackUniqueId(id); content.ok()) {
    const auto again = unpackUniqueId(packUniqueId(content.value()));
    fuzzRequire(again.ok() && again.value() == content.value(), "an id packs back equal");
  }
  const std::string text = textOf(input);
  if (!isNumeric(text)) return;
  const auto fromText = idFromCommId(text, AF_UNSPEC);
  if (!fromText.ok()) return;
  const auto again = SocketAddress::parse(fromText.value().root.text());
  fuzzRequire(again.ok() && again.value() == fromText.value().root, "an address reads back equal");
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzUniqueId)
