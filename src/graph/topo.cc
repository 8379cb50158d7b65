#include "graph/topo.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <string_view>

namespace nccom {
namespace {

constexpr std::array<const char*, kTopoNodeTypes> kNodeNames = {"GPU", "PCI", "NVS", "CPU", "NIC",
                                                                "NET", "GIN", "RMA", "DEV", "CXB"};
constexpr std::array<const char*, 12> kPathNames = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                    "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

struct Prefix {
  std::string_view text;
  int value;
};

/// Value of the first entry that `text` starts with.
template <size_t N>
int byPrefix(const std::array<Prefix, N>& table, std::string_view text, int otherwise) {
  for (const Prefix& entry : table) {
    if (text.starts_with(entry.text)) return entry.value;
  }
  return otherwise;
}

// 100 Mb/s a lane, as the kernel words the speed. A wording that is not listed (such as "16 GT/s
// PCIe" for "16.0 GT/s PCIe") still starts with a listed one or counts as 8 GT/s, as in NCCL.
constexpr std::array<Prefix, 11> kPciSpeeds = {{{"2.5 GT/s", 15},
                                                {"5 GT/s", 30},
                                                {"8 GT/s", 60},
                                                {"16 GT/s", 120},
                                                {"32 GT/s", 240},
                                                {"2.5 GT/s PCIe", 15},
                                                {"5.0 GT/s PCIe", 30},
                                                {"8.0 GT/s PCIe", 60},
                                                {"16.0 GT/s PCIe", 120},
                                                {"32.0 GT/s PCIe", 240},
                                                {"64.0 GT/s PCIe", 480}}};

}  // namespace

const char* toText(ncclTopoNodeType type) {
  return kNodeNames[static_cast<size_t>(type)];
}

const char* toText(ncclTopoPathType type) {
  return kPathNames[static_cast<size_t>(type)];
}

const char* toText(ncclTopoLinkType type) {
  switch (type) {
    case ncclTopoLinkType::Loc:
      return "LOC";
    case ncclTopoLinkType::Nvl:
      return "NVL";
    case ncclTopoLinkType::C2c:
      return "C2C";
    case ncclTopoLinkType::Pci:
      return "PCI";
    case ncclTopoLinkType::Sys:
      return "SYS";
    case ncclTopoLinkType::Net:
      return "NET";
  }
  return "?";
}

std::optional<ncclTopoPathType> pathTypeFromText(const std::string& text) {
  const auto found = std::find(kPathNames.begin(), kPathNames.end(), text);
  if (found == kPathNames.end()) return std::nullopt;
  return static_cast<ncclTopoPathType>(found - kPathNames.begin());
}

int ncclTopoRankToIndex(const ncclTopoSystem& system, int rank) {
  const auto& gpus = system.nodes(ncclTopoNodeType::Gpu);
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const auto& node) { return node.gpu.rank == rank; });
  return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
}

int ncclTopoIdToIndex(const ncclTopoSystem& system, ncclTopoNodeType type, int64_t id) {
  const auto& nodes = system.nodes(type);
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.id == id; });
  return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

std::optional<int64_t> busIdToInt64(const std::string& busId) {
  uint64_t value = 0;
  int digits = 0;
  for (const char c : busId) {
    if (c == ':' || c == '.') continue;
    if (isxdigit(static_cast<unsigned char>(c)) == 0 || ++digits > 16) return std::nullopt;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  if (digits == 0) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<int64_t> hexToInt64(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<int64_t>(value);
}

float nvLinkGBps(int sm) {
  if (sm >= 100) return 40.1F;
  if (sm >= 90) return 20.6F;
  if (sm == 86) return 12.0F;
  if (sm >= 70) return 20.0F;
  if (sm >= 60) return 18.0F;
  return 20.0F;
}

float pciLinkGBps(const std::string& linkSpeed, int linkWidth) {
  const int width = linkWidth == 0 ? 16 : linkWidth;
  return static_cast<float>(width * byPrefix(kPciSpeeds, linkSpeed, 60) / 80.0);
}

bool isKnownPciSpeed(std::string_view linkSpeed) {
  return byPrefix(kPciSpeeds, linkSpeed, 0) != 0;
}

ncclTopoNodeType nodeTypeOfClass(const std::string& pciClass) {
  static constexpr std::array<Prefix, 6> kClasses = {
      {{"0x060400", static_cast<int>(ncclTopoNodeType::Pci)},
       {"0x080100", static_cast<int>(ncclTopoNodeType::Pci)},
       {"0x068000", static_cast<int>(ncclTopoNodeType::Nvs)},
       {"0x068001", static_cast<int>(ncclTopoNodeType::Cpu)},
       {"0x03", static_cast<int>(ncclTopoNodeType::Gpu)},
       {"0x02", static_cast<int>(ncclTopoNodeType::Nic)}}};
  const int type = byPrefix(kClasses, pciClass, static_cast<int>(ncclTopoNodeType::Pci));
  return static_cast<ncclTopoNodeType>(type);
}

void ncclTopoConnectNodes(ncclTopoSystem& system, ncclTopoNodeRef from, ncclTopoLink link) {
  std::vector<ncclTopoLink>& links = system.at(from).links;
  auto place = std::find_if(links.begin(), links.end(), [&](const ncclTopoLink& known) {
    return known.remote == link.remote && known.type == link.type;
  });
  if (place == links.end()) {
    place = links.insert(place, link);
  } else {
    place->bwGBps += link.bwGBps;
  }
  // Move it up to its place; links of equal width keep the order in which they came.
  for (; place != links.begin() && std::prev(place)->bwGBps < place->bwGBps; --place) {
    std::iter_swap(place, std::prev(place));
  }
}

int reverseLinkIndex(const ncclTopoSystem& system, ncclTopoNodeRef node, const ncclTopoLink& link) {
  const std::vector<ncclTopoLink>& links = system.at(link.remote).links;
  const auto back = std::find_if(links.begin(), links.end(), [&](const ncclTopoLink& other) {
    return other.remote == node && other.type == link.type;
  });
  return back == links.end() ? -1 : static_cast<int>(back - links.begin());
}

void ncclTopoRemoveNode(ncclTopoSystem& system, ncclTopoNodeRef node) {
  for (std::vector<ncclTopoNode>& nodes : system.nodesOfType) {
    for (ncclTopoNode& other : nodes) {
      std::erase_if(other.links, [&](const ncclTopoLink& link) { return link.remote == node; });
      for (ncclTopoLink& link : other.links) {
        if (link.remote.type == node.type && link.remote.index > node.index) link.remote.index--;
      }
      for (auto& paths : other.paths)
        paths.clear();
      if (node.type != ncclTopoNodeType::Dev || other.type != ncclTopoNodeType::Gpu) continue;
      if (other.gpu.parent == node.index) other.gpu.parent = kTopoUndef;
      if (other.gpu.parent > node.index) other.gpu.parent--;
    }
  }
  system.nodes(node.type).erase(system.nodes(node.type).begin() + node.index);
}

}  // namespace nccom
