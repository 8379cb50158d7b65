// A Trainium host as the grid of its devices: cores, links, NICs, and the tours that its channels
// follow; below, each tour on its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "tools/nccom/ring_groups.h"
#include "tools/nccom/topo_svg.h"
#include "tools/nccom/topo_tree.h"

namespace nccom {
namespace {

constexpr double kPitchX = 200, kPitchY = 180;  // of the grid
constexpr double kWidth = 112, kHeight = 100;   // of a device
constexpr double kStub = 34;                    // of a link around the edge of the grid
constexpr double kLane = 6;                     // between tours on one link
constexpr int kMaxTours = 8;

constexpr std::array<const char*, 4> kNumaFills = {"#e8f1fa", "#fdf3e1", "#eaf6e6", "#f6e8f3"};

const SvgTextStyle kBold = {.size = 12, .bold = true};
const SvgTextStyle kSmall = {.size = 9, .colour = "#444444"};
const SvgTextStyle kLegend = {.size = 13, .anchor = SvgAnchor::Start};

/// A way from one device to the next, as it is drawn.
enum class LegKind : uint8_t {
  Straight,  // between neighbours of the grid
  Around,    // over the edge of the grid
  Other,     // any other pair
};

class FabricDrawing {
 public:
  FabricDrawing(Svg& svg, const TopoDomain& domain, const PipelineHost& host)
      : svg_(svg),
        fabric_(*host.fabric),
        domain_(domain),
        first_(host.fabricHost * fabric_.devicesPerHost) {}

  double draw(double y) {
    top_ = y + kStub + 30;
    left_ = 16 + kStub + 30;
    placeDevices();
    findTours();
    drawLinks();
    if (!isGrid_) drawSwitchLines();
    for (size_t t = 0; t < tours_.size() && isGrid_; t++)
      drawTour(tours_[t], static_cast<int>(t));
    for (int d = 0; d < fabric_.devicesPerHost; d++)
      drawDevice(d);
    const double legendBottom = drawLegend(left_ + nCols_ * kPitchX + kStub, y + 10);
    double below = isGrid_ ? top_ + nRows_ * kPitchY + kStub : switchTop();
    below = drawSwitches(below) + 10;
    return drawPanels(std::max(below, legendBottom));
  }

 private:
  // ---- places -----------------------------------------------------------------------------------

  const FabricDevice& device(int d) const { return fabric_.devices[first_ + d]; }

  void placeDevices() {
    std::set<std::pair<int, int>> taken;
    isGrid_ = true;
    for (int d = 0; d < fabric_.devicesPerHost; d++) {
      isGrid_ = isGrid_ && device(d).row >= 0 && device(d).col >= 0 &&
                taken.insert({device(d).row, device(d).col}).second;
    }
    for (int d = 0; d < fabric_.devicesPerHost; d++) {
      const int row = isGrid_ ? device(d).row : d / 4;
      const int col = isGrid_ ? device(d).col : d % 4;
      cell_.push_back({row, col});
      nRows_ = std::max(nRows_, row + 1);
      nCols_ = std::max(nCols_, col + 1);
    }
  }

  SvgBox placeOf(int d) const {
    return {left_ + cell_[d].second * kPitchX, top_ + cell_[d].first * kPitchY, kWidth, kHeight};
  }

  LegKind kindOf(int a, int b) const {
    const int rows = std::abs(cell_[a].first - cell_[b].first);
    const int cols = std::abs(cell_[a].second - cell_[b].second);
    if (rows + cols == 1) return LegKind::Straight;
    const bool isRowEnd = cols == 0 && rows == nRows_ - 1 && rows > 1;
    const bool isColEnd = rows == 0 && cols == nCols_ - 1 && cols > 1;
    return isRowEnd || isColEnd ? LegKind::Around : LegKind::Other;
  }

  // ---- tours ------------------------------------------------------------------------------------

  void findTours() {
    std::vector<int> deviceOf;
    for (const ncclTopoNode& gpu : domain_.system.nodes(ncclTopoNodeType::Gpu)) {
      const auto rank = static_cast<size_t>(gpu.gpu.rank);
      if (deviceOf.size() <= rank) deviceOf.resize(rank + 1, -1);
      const int core = gpu.gpu.dev + first_ * fabric_.coresPerDevice;
      deviceOf[rank] = fabric_.cores[core].device - first_;
      rankOf_[gpu.gpu.dev] = gpu.gpu.rank;
    }
    closed_ = domain_.ring.inter.empty();
    tours_ = groupRings(domain_.ring, closed_, deviceOf);
    hidden_ = std::max(0, static_cast<int>(tours_.size()) - kMaxTours);
    tours_.resize(tours_.size() - static_cast<size_t>(hidden_));
  }

  /// How far a tour is drawn beside the middle of a link.
  double laneOf(int tour) const {
    return (tour - (static_cast<double>(tours_.size()) - 1) / 2) * kLane;
  }

  template <class Draw>
  void forLegs(const RingGroup& tour, const Draw& draw) const {
    const size_t n = tour.order.size();
    if (n < 2) return;
    for (size_t i = 0; i + (closed_ && n > 2 ? 0 : 1) < n; i++)
      draw(tour.order[i], tour.order[(i + 1) % n]);
  }

  void drawTour(const RingGroup& tour, int number) {
    const SvgStroke stroke = {.colour = svgColour(number), .width = 3};
    forLegs(tour, [&](int a, int b) { drawLeg(a, b, laneOf(number), stroke, ""); });
  }

  void drawLeg(int a, int b, double lane, SvgStroke stroke, const std::string& label) {
    switch (kindOf(a, b)) {
      case LegKind::Straight:
        drawStraight(a, b, lane, stroke);
        break;
      case LegKind::Around:
        drawStub(a, b, lane, stroke, label);
        drawStub(b, a, lane, stroke, label);
        break;
      case LegKind::Other:
        stroke.dashed = true;
        svg_.curve(placeOf(a).centre(), placeOf(b).centre(), 60 + lane, stroke);
        break;
    }
  }

  void drawStraight(int a, int b, double lane, const SvgStroke& stroke) {
    SvgPoint from = placeOf(a).centre();
    SvgPoint to = placeOf(b).centre();
    if (cell_[a].first == cell_[b].first) {
      from.y += lane;
      to.y += lane;
    } else {
      from.x += lane;
      to.x += lane;
    }
    svg_.line(from, to, stroke);
  }

  /// The end at `a` of a link that leaves the grid and comes back on the other side, at `b`.
  void drawStub(int a, int b, double lane, const SvgStroke& stroke, const std::string& label) {
    const SvgBox box = placeOf(a);
    const bool isRow = cell_[a].first == cell_[b].first;
    const bool isLow = isRow ? cell_[a].second < cell_[b].second : cell_[a].first < cell_[b].first;
    SvgPoint from = box.centre();
    SvgPoint to = from;
    if (isRow) {
      from.y += lane;
      to = {isLow ? box.x - kStub : box.x + box.width + kStub, from.y};
    } else {
      from.x += lane;
      to = {from.x, isLow ? box.y - kStub : box.y + box.height + kStub};
    }
    svg_.line(from, to, stroke);
    if (label.empty()) return;
    const SvgPoint at =
        isRow ? SvgPoint{to.x + (isLow ? -4 : 4), to.y} : SvgPoint{to.x, to.y + (isLow ? -9 : 9)};
    const SvgAnchor anchor = !isRow ? SvgAnchor::Middle : isLow ? SvgAnchor::End : SvgAnchor::Start;
    svg_.text(at, "to " + std::to_string(b), {.size = 10, .anchor = anchor, .colour = "#666666"});
  }

  // ---- the machine ------------------------------------------------------------------------------

  void drawLinks() {
    const double width = 8 + kLane * static_cast<double>(isGrid_ ? tours_.size() : 0);
    for (const FabricLink& link : fabric_.links) {
      const int a = link.from - first_;
      const int b = link.to - first_;
      const bool isHere = a >= 0 && b < fabric_.devicesPerHost && b > a;
      if (!isHere || link.group != -1) continue;
      drawLeg(a, b, 0, {.colour = "#d5d5d5", .width = width}, std::to_string(b));
    }
  }

  /// Where the bars of switches begin.
  double switchTop() const { return top_ + (nRows_ - 1) * kPitchY + kHeight + kStub; }

  /// From each device to the switches below, beside those of the devices above it.
  void drawSwitchLines() {
    const bool hasSwitch = std::any_of(fabric_.groups.begin(), fabric_.groups.end(),
                                       [](const SwitchGroup& group) { return group.bwGBps > 0; });
    for (int d = 0; d < fabric_.devicesPerHost && hasSwitch; d++) {
      const SvgBox box = placeOf(d);
      const double x = box.x + 14 + (kWidth - 28) * (cell_[d].first + 0.5) / nRows_;
      svg_.line({x, box.y + box.height}, {x, switchTop()}, {.colour = "#7fb56f", .width = 2});
    }
  }

  void drawDevice(int d) {
    const SvgBox box = placeOf(d);
    const FabricDevice& facts = device(d);
    const auto numa = static_cast<size_t>(std::max(0, facts.numa)) % kNumaFills.size();
    svg_.box(box, kNumaFills[numa], "#5a6f8a",
             "device " + std::to_string(d) + ", " + facts.busId + ", NUMA node " +
                 std::to_string(facts.numa));
    svg_.text({box.centre().x, box.y + 11}, "device " + std::to_string(d), kBold);
    const int nCores = fabric_.coresPerDevice;
    const int cols = nCores > 4 ? 4 : nCores > 1 ? 2 : 1;
    const int rows = (nCores + cols - 1) / cols;
    const double width = (kWidth - 12) / cols;
    const double height = std::min(26.0, 56.0 / rows);
    for (int c = 0; c < nCores; c++) {
      const SvgBox core = {box.x + 6 + (c % cols) * width, box.y + 21 + (c / cols) * height,
                           width - 3, height - 3};
      const int number = d * nCores + c;
      const bool isUsed = rankOf_.contains(number);
      svg_.box(core, isUsed ? "#ffffff" : "#dddddd", "#8aa0c0",
               "logical core " + std::to_string(number) +
                   (isUsed ? ", rank " + std::to_string(rankOf_[number]) : ", no rank"));
      if (isUsed) svg_.text(core.centre(), std::to_string(rankOf_[number]), {.size = 10});
    }
    drawNic(d, box);
  }

  void drawNic(int d, const SvgBox& box) {
    const FabricDevice& facts = device(d);
    if (facts.efa < 0) return;
    const SvgBox nic = {box.x + 6, box.y + box.height - 18, box.width - 12, 14};
    svg_.box(nic, "#fde8c8", "#c98f2b", "NIC " + facts.efaBusId);
    svg_.text(nic.centre(), "EFA " + std::to_string(facts.efa), {.size = 9});
  }

  /// Switches that join the devices of the host, as bars below the grid.
  double drawSwitches(double y) {
    for (const SwitchGroup& group : fabric_.groups) {
      const bool isHere =
          group.firstDevice < first_ + fabric_.devicesPerHost && group.lastDevice >= first_;
      if (!isHere || group.bwGBps <= 0) continue;
      svg_.box({left_, y, nCols_ * kPitchX - (kPitchX - kWidth), 22}, "#d9f0d3", "#5a9a4a");
      svg_.text({left_ + (nCols_ * kPitchX - (kPitchX - kWidth)) / 2, y + 11},
                group.name + ": devices " + std::to_string(group.firstDevice) + " to " +
                    std::to_string(group.lastDevice) + ", " + rateText(group.bwGBps) + " GB/s each",
                kBold);
      y += 30;
    }
    return y;
  }

  double drawLegend(double x, double y) {
    const auto line = [&](const std::string& text) {
      svg_.text({x + 44, y + 7}, text, kLegend);
      y += 22;
    };
    for (size_t t = 0; t < tours_.size(); t++) {
      svg_.line({x, y + 7}, {x + 34, y + 7},
                {.colour = svgColour(static_cast<int>(t)), .width = 3});
      line("tour " + std::to_string(t) + ": " + tours_[t].label());
    }
    if (hidden_ > 0) line(std::to_string(hidden_) + " more tours are not drawn");
    if (linkGBps() > 0) {
      svg_.line({x, y + 7}, {x + 34, y + 7}, {.colour = "#d5d5d5", .width = 8});
      line("device link, " + rateText(linkGBps()) + " GB/s one way");
    }
    svg_.box({x + 6, y, 24, 14}, "#ffffff", "#8aa0c0");
    line("logical core with its rank");
    svg_.box({x + 6, y, 24, 14}, "#fde8c8", "#c98f2b");
    line("NIC, " + rateText(static_cast<float>(fabric_.platform->netMbps) / 8000) + " GB/s");
    for (const NeuronNuma& numa : fabric_.platform->numas) {
      svg_.box({x + 6, y, 24, 14},
               kNumaFills[static_cast<size_t>(std::max(0, numa.id)) % kNumaFills.size()],
               "#5a6f8a");
      line("CPU: NUMA node " + std::to_string(numa.id) + ", CPUs " + std::string(numa.cpus));
    }
    return y;
  }

  float linkGBps() const {
    for (const FabricLink& link : fabric_.links) {
      if (link.group == -1) return link.bwGBps;
    }
    return 0;
  }

  // ---- each tour on its own ---------------------------------------------------------------------

  double drawPanels(double y) {
    constexpr double kPanelStep = 46;
    const bool onGrid = isGrid_;
    const double circle = std::max(60.0, 8.0 * fabric_.devicesPerHost);
    const double width = onGrid ? nCols_ * kPanelStep + 80 : 2 * circle + 80;
    const double height = onGrid ? nRows_ * kPanelStep + 60 : 2 * circle + 70;
    double x = left_;
    for (size_t t = 0; t < tours_.size(); t++) {
      const std::string label = "tour " + std::to_string(t) + ": " + tours_[t].label();
      const double step = std::max(width, static_cast<double>(label.size()) * 7.5 + 20);
      if (t > 0 && x + step > left_ + 1100) {
        x = left_;
        y += height;
      }
      svg_.text({x, y + 10}, label,
                {.size = 12,
                 .anchor = SvgAnchor::Start,
                 .bold = true,
                 .colour = svgColour(static_cast<int>(t))});
      const std::vector<SvgPoint> at =
          onGrid ? gridPoints(x + 20, y + 44, kPanelStep)
                 : circlePoints({x + circle + 20, y + circle + 40}, circle);
      drawPanel(tours_[t], static_cast<int>(t), at);
      x += step;
    }
    return tours_.empty() ? y : y + height;
  }

  std::vector<SvgPoint> gridPoints(double x, double y, double step) const {
    std::vector<SvgPoint> points;
    for (const auto& [row, col] : cell_)
      points.push_back({x + col * step, y + row * step});
    return points;
  }

  std::vector<SvgPoint> circlePoints(SvgPoint centre, double radius) const {
    std::vector<SvgPoint> points;
    for (int d = 0; d < fabric_.devicesPerHost; d++) {
      const double angle = 2 * std::numbers::pi * d / fabric_.devicesPerHost;
      points.push_back({centre.x + radius * std::sin(angle), centre.y - radius * std::cos(angle)});
    }
    return points;
  }

  void drawPanel(const RingGroup& tour, int number, const std::vector<SvgPoint>& at) {
    constexpr double kRadius = 11;
    const SvgStroke stroke = {.colour = svgColour(number), .width = 2, .arrow = true};
    forLegs(tour, [&](int a, int b) {
      const double length = std::hypot(at[b].x - at[a].x, at[b].y - at[a].y);
      const SvgPoint way = {(at[b].x - at[a].x) / length, (at[b].y - at[a].y) / length};
      const SvgPoint from = {at[a].x + way.x * kRadius, at[a].y + way.y * kRadius};
      const SvgPoint to = {at[b].x - way.x * kRadius, at[b].y - way.y * kRadius};
      const bool isBent = isGrid_ && kindOf(a, b) != LegKind::Straight;
      svg_.curve(from, to, isBent ? 16 : 0, stroke);
    });
    for (int d = 0; d < fabric_.devicesPerHost; d++) {
      const bool isFirst = !tour.order.empty() && tour.order[0] == d;
      svg_.box({at[d].x - kRadius, at[d].y - 9, 2 * kRadius, 18}, isFirst ? "#ffe9a8" : "#ffffff",
               "#5a6f8a");
      svg_.text(at[d], std::to_string(d), {.size = 10});
    }
  }

  Svg& svg_;
  const NeuronFabric& fabric_;
  const TopoDomain& domain_;
  const int first_;                        // number of the host's first device in the fabric
  std::vector<std::pair<int, int>> cell_;  // [device] row and column
  int nRows_ = 0, nCols_ = 0;
  bool isGrid_ = false;  // the platform says where devices are
  double left_ = 0, top_ = 0;
  std::vector<RingGroup> tours_;  // of device numbers within the host
  bool closed_ = true;
  int hidden_ = 0;
  std::map<int, int> rankOf_;  // by logical core of the host
};

}  // namespace

double drawFabric(Svg& svg, const TopoDomain& domain, const PipelineHost& host, double y) {
  return FabricDrawing(svg, domain, host).draw(y);
}

}  // namespace nccom
