// Any system as nested boxes (CPU, PCI switches, devices, NICs), with its fabric and its rings as
// arcs below the devices.
#include <algorithm>
#include <cmath>
#include <map>

#include "tools/nccom/ring_groups.h"
#include "tools/nccom/topo_svg.h"
#include "tools/nccom/topo_tree.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

constexpr double kGap = 8;
constexpr double kTitle = 34;  // height of a box's own lines
constexpr double kLeafWidth = 104;
constexpr double kLeafHeight = 62;
constexpr double kMaxArc = 60;   // height of the highest arc over a rail
constexpr double kRailBox = 18;  // height of a rank on a rail
constexpr int kMaxGroups = 16;   // rings that are drawn

const SvgTextStyle kBold = {.size = 12, .bold = true};
const SvgTextStyle kSmallBold = {.size = 9, .bold = true};
const SvgTextStyle kSmall = {.size = 10, .colour = "#444444"};

struct Size {
  double width = 0, height = 0;
};

class TreeDrawing {
 public:
  TreeDrawing(Svg& svg, const TopoDomain& domain) : svg_(svg), domain_(domain) {}

  double draw(double y) {
    const std::vector<TopoBox> roots = topoTree(domain_.system);
    double x = 16;
    double bottom = y;
    std::vector<SvgBox> cpus;
    for (const TopoBox& root : roots) {
      const Size size = sizeOf(root);
      drawBox(root, x, y);
      cpus.push_back({x, y, size.width, size.height});
      x += size.width + 4 * kGap;
      bottom = std::max(bottom, y + size.height);
    }
    drawCpuLinks(cpus);
    right_ = x;
    bottom = drawSwitch(bottom + 16);
    bottom = drawFabricArcs(bottom);
    return drawRings(bottom);
  }

 private:
  static bool isLeaf(const TopoBox& box) {
    return box.node.type == Type::Dev || box.node.type == Type::Nic;
  }

  static Size sizeOf(const TopoBox& box) {
    if (isLeaf(box)) return {kLeafWidth, kLeafHeight};
    Size size = {kGap, 0};
    for (const TopoBox& child : box.children) {
      const Size inner = sizeOf(child);
      size.width += inner.width + kGap;
      size.height = std::max(size.height, inner.height);
    }
    size.width = std::max(size.width, kLeafWidth + 2 * kGap);
    size.height += kTitle + kGap + 4;
    return size;
  }

  void drawBox(const TopoBox& box, double x, double y) {
    const Size size = sizeOf(box);
    if (isLeaf(box)) {
      drawLeaf(box, {x, y, size.width, size.height});
      return;
    }
    const bool isCpu = box.node.type == Type::Cpu;
    svg_.box({x, y, size.width, size.height}, isCpu ? "#f3f6fb" : "#ffffff",
             isCpu ? "#8aa0c0" : "#999999", box.title + " " + box.facts);
    svg_.text({x + size.width / 2, y + 13}, box.title, kBold);
    svg_.text({x + size.width / 2, y + 27}, isCpu ? box.facts : upText(box), kSmall);
    double childX = x + kGap;
    for (const TopoBox& child : box.children) {
      drawBox(child, childX, y + kTitle);
      childX += sizeOf(child).width + kGap;
    }
  }

  static std::string upText(const TopoBox& box) {
    if (box.upGBps <= 0 || box.upGBps >= kLocalGBps) return "";
    return "up " + rateText(box.upGBps) + " GB/s";
  }

  void drawLeaf(const TopoBox& box, const SvgBox& place) {
    const bool isGpu = box.node.type == Type::Dev;
    std::string tooltip = box.title + " (" + box.facts + ")";
    for (const std::string& link : box.fabric)
      tooltip += "; " + link;
    svg_.box(place, isGpu ? "#d9f0d3" : "#fde8c8", isGpu ? "#5a9a4a" : "#c98f2b", tooltip);
    const double x = place.centre().x;
    std::string second;
    if (isGpu) {
      for (const int rank : box.ranks) {
        centre_[rank] = place.centre();
        second += (second.empty() ? "rank " : ",") + std::to_string(rank);
      }
      devCentre_[box.node.index] = place.centre();
      bottomOf_[box.node.index] = place.y + place.height;
    } else {
      second = placeNets(box, place);
    }
    svg_.text({x, place.y + 14}, isGpu ? box.title : shortened(box.title),
              isGpu ? kBold : kSmallBold);
    svg_.text({x, place.y + 31}, shortened(second), kSmall);
    svg_.text({x, place.y + 47}, upText(box), kSmall);
  }

  /// Notes where the NETs of a NIC are; their names for the box.
  std::string placeNets(const TopoBox& box, const SvgBox& place) {
    std::string names;
    for (const ncclTopoLink& link : domain_.system.at(box.node).links) {
      if (link.remote.type != Type::Net) continue;
      const ncclTopoNode& net = domain_.system.at(link.remote);
      netCentre_[net.id] = place.centre();
      names += (names.empty() ? "NET " : ",") + std::to_string(localIdOf(net.id));
      if (!net.net.name.empty()) names += " " + net.net.name;
    }
    return names;
  }

  static std::string shortened(const std::string& text) {
    constexpr size_t kChars = 18;
    return text.size() <= kChars ? text : text.substr(0, kChars - 2) + "..";
  }

  void drawCpuLinks(const std::vector<SvgBox>& cpus) {
    for (size_t i = 1; i < cpus.size(); i++) {
      const SvgBox& a = cpus[i - 1];
      const SvgBox& b = cpus[i];
      const double y = a.y + 14;
      const ncclTopoNode& cpu = domain_.system.nodes(Type::Cpu)[i - 1];
      for (const ncclTopoLink& link : cpu.links) {
        if (link.remote != cpuRef(static_cast<int>(i))) continue;
        svg_.line({a.x + a.width, y}, {b.x, y}, {.colour = "#8aa0c0", .width = 4});
        svg_.text({(a.x + a.width + b.x) / 2, y + 12}, rateText(link.bwGBps), kSmall);
      }
    }
  }

  /// The switch that devices are joined to, as a bar below them.
  double drawSwitch(double y) {
    if (domain_.system.count(Type::Nvs) == 0) return y;
    float gbps = 0;
    for (const ncclTopoLink& link : domain_.system.nodes(Type::Nvs)[0].links) {
      if (link.remote.type != Type::Dev || !devCentre_.contains(link.remote.index)) continue;
      const SvgPoint from = {devCentre_[link.remote.index].x, bottomOf_[link.remote.index]};
      svg_.line(from, {from.x, y}, {.colour = "#7fb56f", .width = 2});
      gbps = std::max(gbps, link.bwGBps);
    }
    svg_.box({16, y, right_ - 16 - 4 * kGap, 24}, "#d9f0d3", "#5a9a4a");
    svg_.text({(right_ - 4 * kGap) / 2, y + 12},
              "device switch, " + rateText(gbps) + " GB/s a device", kBold);
    return y + 40;
  }

  /// One arc: higher the longer it is, so that arcs over one rail can be told apart.
  void drawArc(double fromX, double toX, double y, double longest, const SvgStroke& stroke) {
    const double share = std::abs(toX - fromX) / std::max(longest, 1.0);
    const double height = 14 + (kMaxArc - 14) * share;
    // Arcs to the right go above the rail, arcs to the left below it, from edge to edge of a box.
    const double way = toX > fromX ? 1 : -1;
    const double edge = y - way * kRailBox / 2;
    svg_.curve({fromX + 4 * way, edge}, {toX - 4 * way, edge}, height, stroke);
  }

  double longestSpan() const {
    double least = 1e9;
    double most = 0;
    for (const auto& [rank, point] : centre_) {
      least = std::min(least, point.x);
      most = std::max(most, point.x);
    }
    return most - least;
  }

  double drawFabricArcs(double y) {
    const auto& devs = domain_.system.nodes(Type::Dev);
    float widest = 0;
    for (const ncclTopoNode& dev : devs) {
      for (const ncclTopoLink& link : dev.links) {
        const bool isDirect = link.type == ncclTopoLinkType::Nvl && link.remote.type == Type::Dev;
        if (isDirect) widest = std::max(widest, link.bwGBps);
      }
    }
    if (widest == 0) return y;
    const double rail = y + kMaxArc + 16;
    svg_.text(
        {16, y + 8},
        "Direct links between devices, thicker is wider (widest " + rateText(widest) + " GB/s)",
        {.size = 12, .anchor = SvgAnchor::Start, .bold = true});
    for (int d = 0; d < static_cast<int>(devs.size()); d++) {
      for (const ncclTopoLink& link : devs[d].links) {
        const bool isDirect = link.type == ncclTopoLinkType::Nvl && link.remote.type == Type::Dev;
        if (!isDirect || link.remote.index < d) continue;
        double from = devCentre_[d].x;
        double to = devCentre_[link.remote.index].x;
        if (from > to) std::swap(from, to);
        drawArc(
            from, to, rail, longestSpan(),
            {.colour = "#7a9a72", .width = 1 + 3.0 * static_cast<double>(link.bwGBps / widest)});
      }
    }
    drawRail(rail);
    return rail + 26;
  }

  void drawRail(double y) {
    for (const auto& [rank, point] : centre_) {
      svg_.box({point.x - 11, y - kRailBox / 2, 22, kRailBox}, "#ffffff", "#5a9a4a");
      svg_.text({point.x, y}, std::to_string(rank), {.size = 11, .bold = true});
    }
  }

  double drawRings(double y) {
    const bool closed = domain_.ring.inter.empty();
    const std::vector<RingGroup> groups = groupRings(domain_.ring, closed);
    const int drawn = std::min(kMaxGroups, static_cast<int>(groups.size()));
    for (int g = 0; g < drawn; g++)
      y = drawRing(groups[g], g, closed, y);
    if (drawn < static_cast<int>(groups.size())) {
      svg_.text({16, y + 10}, std::to_string(groups.size() - drawn) + " more rings are not drawn",
                {.size = 12, .anchor = SvgAnchor::Start});
      y += 24;
    }
    return y;
  }

  double drawRing(const RingGroup& group, int number, bool closed, double y) {
    const SvgStroke stroke = {.colour = svgColour(number), .width = 2, .arrow = true};
    std::string label = "Ring " + std::to_string(number) + ": " + group.label();
    if (!closed) label += ", in and out by " + netsOf(group);
    svg_.text({16, y + 10}, label,
              {.size = 12, .anchor = SvgAnchor::Start, .bold = true, .colour = stroke.colour});
    const double rail = y + kMaxArc + 26;
    const size_t n = group.order.size();
    for (size_t i = 0; i + (closed ? 0 : 1) < n && n > 1; i++) {
      drawArc(centre_[group.order[i]].x, centre_[group.order[(i + 1) % n]].x, rail, longestSpan(),
              stroke);
    }
    if (!closed) drawNetLegs(group, rail, stroke);
    drawRail(rail);
    return rail + kMaxArc + 20;
  }

  std::string netsOf(const RingGroup& group) const {
    const auto& nets = domain_.ring.inter[group.forward[0]];
    return "NET " + std::to_string(localIdOf(nets[0])) + " and NET " +
           std::to_string(localIdOf(nets[1]));
  }

  /// From the NIC to the first rank, from the last to its NIC.
  void drawNetLegs(const RingGroup& group, double rail, SvgStroke stroke) {
    const auto& nets = domain_.ring.inter[group.forward[0]];
    stroke.dashed = true;
    for (const int end : {0, 1}) {
      if (!netCentre_.contains(nets[end])) continue;
      const double netX = netCentre_[nets[end]].x + (end == 0 ? -16 : 16);
      const double rankX = centre_[end == 0 ? group.order.front() : group.order.back()].x;
      svg_.box({netX - 13, rail - kRailBox / 2, 26, kRailBox}, "#fde8c8", "#c98f2b");
      svg_.text({netX, rail}, end == 0 ? "in" : "out", {.size = 10});
      drawArc(end == 0 ? netX : rankX, end == 0 ? rankX : netX, rail, longestSpan(), stroke);
    }
  }

  Svg& svg_;
  const TopoDomain& domain_;
  std::map<int, SvgPoint> centre_;         // by rank
  std::map<int, SvgPoint> devCentre_;      // by index
  std::map<int, double> bottomOf_;         // of a device's box
  std::map<int64_t, SvgPoint> netCentre_;  // by id
  double right_ = 0;
};

}  // namespace

double drawTree(Svg& svg, const TopoDomain& domain, double y) {
  return TreeDrawing(svg, domain).draw(y);
}

}  // namespace nccom
