#include "tools/nccom/topo_mode.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace nccom {
namespace {

constexpr int kMaxHosts = 65536;
constexpr int kMaxGpu = 65535;

struct GpuSet {
  std::string_view name;
  std::vector<int> gpus;
};

std::vector<GpuSet> namedSets() {
  return {{"1", {0}}, {"2", {0, 1}}, {"3", {0, 1, 5}}, {"4e", {0, 2, 4, 6}}};
}

constexpr int kMaxCliqueHosts = 64;  // in one system, whose paths grow with the square

/// The number that `text` is, -1 if it is none or above `max`.
int numberOf(std::string_view text, int max) {
  int value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool isNumber = error == std::errc() && stop == end && !text.starts_with('-');
  return isNumber && value <= max ? value : -1;
}

Error badMode(const std::string& text) {
  return fail(ncclInvalidArgument,
              "mode '%s': expected d0, d1, p<hosts>, m<hosts> (at most %d) or g<1|2|3|4e>n<hosts>",
              text.c_str(), kMaxCliqueHosts);
}

}  // namespace

Result<TopoMode> parseMode(const std::string& text) {
  TopoMode mode;
  if (text == "d0" || text == "d1") {
    mode.kind = TopoMode::Kind::Direct;
    mode.inter = text == "d1";
    return mode;
  }
  std::string_view hosts = text;
  if (text.starts_with("g")) {
    const size_t n = text.rfind('n');
    const auto sets = namedSets();
    const auto set = std::find_if(sets.begin(), sets.end(), [&](const GpuSet& known) {
      return n != std::string::npos && known.name == std::string_view(text).substr(1, n - 1);
    });
    if (set == sets.end()) return badMode(text);
    mode.gpus = set->gpus;
    hosts.remove_prefix(n);
  } else if (text.starts_with("m")) {
    mode.kind = TopoMode::Kind::Clique;
  } else if (!text.starts_with("p")) {
    return badMode(text);
  }
  const bool isClique = mode.kind == TopoMode::Kind::Clique;
  mode.nHosts = numberOf(hosts.substr(1), isClique ? kMaxCliqueHosts : kMaxHosts);
  if (mode.nHosts < 1) return badMode(text);
  return mode;
}

Result<std::vector<int>> parseList(const std::string& text) {
  std::vector<int> numbers;
  const auto bad = [&](const char* what) {
    return fail(ncclInvalidArgument, "'%s' %s: expected numbers such as 0,2,4-7", text.c_str(),
                what);
  };
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view item = std::string_view(text).substr(start, end - start);
    const size_t dash = std::min(item.find('-'), item.size());
    const int first = numberOf(item.substr(0, dash), kMaxGpu);
    const int last = dash == item.size() ? first : numberOf(item.substr(dash + 1), kMaxGpu);
    if (first < 0 || last < first) return bad("is no list");
    for (int value = first; value <= last; value++) {
      if (std::find(numbers.begin(), numbers.end(), value) != numbers.end()) {
        return bad("names a number twice");
      }
      numbers.push_back(value);
    }
    start = end + 1;
  }
  return numbers;
}

}  // namespace nccom
