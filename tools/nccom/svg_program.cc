#include "tools/nccom/svg_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tools/nccom/schedule_run.h"
#include "tools/nccom/svg.h"

namespace nccom {
namespace {

constexpr size_t kMaxBars = 8000;
constexpr size_t kMaxArrows = 700;
constexpr double kLeft = 84;                               // of time 0
constexpr double kDrawnWidth = 1500, kDrawnHeight = 1500;  // aimed at
constexpr const char* kIdle = "#e4e4e4";

/// "#rrggbb" with `share` of another grey level in it.
std::string mixed(const std::string& colour, int grey, double share) {
  std::string result = "#";
  for (size_t i = 1; i + 1 < colour.size(); i += 2) {
    const int level = std::stoi(colour.substr(i, 2), nullptr, 16);
    const auto mix = static_cast<int>(level * (1 - share) + grey * share);
    constexpr const char* kDigits = "0123456789abcdef";
    result += kDigits[mix / 16];
    result += kDigits[mix % 16];
  }
  return result;
}

/// From one rank to another, within a span.
struct Arrow {
  int from = 0, to = 0;
  bool operator<(const Arrow& other) const {
    return std::pair(from, to) < std::pair(other.from, other.to);
  }
};

std::set<Arrow> arrowsOf(const RunSpan& span) {
  if (span.kind == RunSpanKind::Net) return {{span.rank, span.peer}};
  std::set<Arrow> arrows;
  if (span.kind == RunSpanKind::Wait) return arrows;
  // Bytes go from where they are read to the one that moves them, and on to where they are written.
  for (const encAddress& source : span.desc->sources) {
    if (source.rank != span.rank) arrows.insert({source.rank, span.rank});
  }
  for (const encAddress& destination : span.desc->destinations) {
    if (destination.rank != span.rank) arrows.insert({span.rank, destination.rank});
  }
  return arrows;
}

std::string peersText(const RunSpan& span) {
  std::string in, out;
  for (const Arrow& arrow : arrowsOf(span)) {
    if (arrow.to == span.rank) {
      in += (in.empty() ? "" : ",") + std::to_string(arrow.from);
    } else {
      out += (out.empty() ? "" : ",") + std::to_string(arrow.to);
    }
  }
  return in.empty() && out.empty() ? "" : in + "\u2192" + out;
}

/// Characters, of text that is mostly ASCII.
size_t lengthOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

class Drawing {
 public:
  Drawing(std::span<const encProgram> programs, const ProgramDrawing& what, ScheduleRun run)
      : programs_(programs), what_(what), run_(std::move(run)) {
    size_t rows = 0;
    for (const encProgram& program : programs) {
      firstRow_.push_back(rows);
      rows += std::max<size_t>(1, program.queues.size());
    }
    firstRow_.push_back(rows);
    rowHeight_ = std::clamp(kDrawnHeight / static_cast<double>(rows), 5.0, 22.0);
    // Few ranks leave room for arrows between them.
    rankGap_ = std::clamp(300 / static_cast<double>(programs.size()), 3.0, 22.0);
    stepWidth_ =
        std::clamp(kDrawnWidth / static_cast<double>(std::max<int64_t>(1, run_.steps)), 7.0, 110.0);
    for (const RunSpan& span : run_.spans) {
      if (span.kind == RunSpanKind::Wait) continue;
      const auto [colour, isNew] = colours_.emplace(span.desc->step, colours_.size());
      if (isNew) order_.push_back(span.desc->step);
      counts_[span.desc->step]++;
      size_t& widest = widest_[span.desc->step];
      widest = std::max(widest, lengthOf(peersText(span)));
    }
  }

  DrawnProgram draw() {
    chooseArrows();
    header();
    rows();
    axis();
    for (const RunSpan& span : run_.spans)
      bar(span);
    for (const RunSpan& span : run_.spans)
      arrows(span);
    for (const RunSpan& span : run_.spans)
      label(span);
    return {svg_.finish(), note_};
  }

 private:
  static constexpr double kTop = 118;

  double x(int64_t time) const { return kLeft + static_cast<double>(time) * stepWidth_; }
  double y(int rank, size_t queue) const {
    return kTop + static_cast<double>(firstRow_[rank] + queue) * rowHeight_ + rank * rankGap_;
  }
  double bottom() const {
    return y(static_cast<int>(programs_.size()) - 1, 0) + heightOf(programs_.size() - 1);
  }
  double heightOf(size_t rank) const {
    return static_cast<double>(firstRow_[rank + 1] - firstRow_[rank]) * rowHeight_;
  }
  double middle(int rank) const { return y(rank, 0) + heightOf(rank) / 2; }
  std::string colourOf(encStep step) const {
    return svgColour(static_cast<int>(colours_.at(step)));
  }
  /// Bars are pale, so that arrows and text stand out on them.
  std::string paleOf(encStep step) const { return mixed(colourOf(step), 255, 0.6); }

  void addNote(const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; }

  void chooseArrows() {
    size_t count = 0;
    for (const RunSpan& span : run_.spans)
      count += arrowsOf(span).size();
    if (run_.isCut) {
      addNote("only the first " + std::to_string(run_.steps) + " steps are drawn, of more");
    }
    if (what_.focus < 0 && count <= kMaxArrows) return;
    focus_ = std::max(0, what_.focus);
    if (what_.focus < 0) {
      addNote("of " + std::to_string(count) + " arrows those of rank " + std::to_string(focus_) +
              " are drawn");
    }
  }

  void header() {
    const SvgTextStyle title = {.size = 18, .anchor = SvgAnchor::Start, .bold = true};
    const SvgTextStyle plain = {.size = 13, .anchor = SvgAnchor::Start};
    svg_.text({16, 24}, what_.title, title);
    std::string line = std::to_string(run_.steps) +
                       " steps of unit time, a row a queue; arrows: from whose bytes are read to "
                       "whose are written";
    if (focus_ >= 0) line += " (of rank " + std::to_string(focus_) + ")";
    svg_.text({16, 46}, line, plain);
    double at = 16;
    double below = 68;
    const auto entry = [&](const std::string& fill, const std::string& text) {
      const double width = 22 + static_cast<double>(text.size()) * 7.4 + 18;
      if (at > 16 && at + width > kLeft + kDrawnWidth) {
        at = 16;
        below += 18;
      }
      svg_.box({at, below - 6, 14, 12}, fill, "#888888");
      svg_.text({at + 20, below}, text, {.size = 12, .anchor = SvgAnchor::Start});
      at += width;
    };
    for (const encStep step : order_) {
      entry(paleOf(step),
            std::string(encStepName(step)) + " (" + std::to_string(counts_.at(step)) + ")");
    }
    entry(kIdle, "waits");
    if (hasNet()) svg_.line({at, below}, {at + 30, below}, {.dashed = true, .arrow = true});
    if (hasNet()) svg_.text({at + 36, below}, "network", {.size = 12, .anchor = SvgAnchor::Start});
  }

  bool hasNet() const {
    return std::any_of(run_.spans.begin(), run_.spans.end(),
                       [](const RunSpan& span) { return span.kind == RunSpanKind::Net; });
  }

  void rows() {
    const double right = x(run_.steps);
    for (int rank = 0; rank < static_cast<int>(programs_.size()); rank++) {
      const bool isFocus = rank == focus_;
      svg_.box({kLeft, y(rank, 0), right - kLeft, heightOf(rank)},
               isFocus ? "#fff6dd" : (what_.nodes[rank] % 2 == 0 ? "#f7f9fc" : "#f4f8f2"),
               "#dddddd");
      std::string name = "rank " + std::to_string(rank);
      if (!what_.names.empty()) name += " (" + std::to_string(what_.names[rank]) + ")";
      svg_.text({kLeft - 8, middle(rank)}, name,
                {.size = std::clamp(heightOf(rank) * 0.8, 7.0, 12.0),
                 .anchor = SvgAnchor::End,
                 .bold = isFocus});
      if (rank > 0 && what_.nodes[rank] != what_.nodes[rank - 1]) {
        svg_.line({8, y(rank, 0) - rankGap_ / 2}, {right, y(rank, 0) - rankGap_ / 2},
                  {.colour = "#555555", .width = 1.2});
      }
    }
  }

  void axis() {
    int64_t every = 1;
    for (int64_t next = 5; static_cast<double>(every) * stepWidth_ < 24;
         next = every % 5 == 0 ? every * 2 : every * 5)
      every = next;
    for (int64_t time = 0; time <= run_.steps; time += every) {
      svg_.line({x(time), kTop - 5}, {x(time), bottom() + 4}, {.colour = "#cccccc", .width = 0.6});
      svg_.text({x(time), kTop - 11}, std::to_string(time), {.size = 9, .colour = "#666666"});
    }
  }

  void bar(const RunSpan& span) {
    if (span.kind == RunSpanKind::Net) return;
    const double top = y(span.rank, span.queue);
    const SvgBox box = {x(span.begin) + 0.5, top + 0.5,
                        static_cast<double>(span.end - span.begin) * stepWidth_ - 1,
                        rowHeight_ - 1};
    const std::string where = "rank " + std::to_string(span.rank) + " queue " +
                              std::to_string(span.queue) + ": " + encDump(*span.desc);
    if (span.kind == RunSpanKind::Wait) {
      svg_.box({box.x, box.y + box.height * 0.35, box.width, box.height * 0.3}, kIdle, kIdle,
               where);
      return;
    }
    svg_.box(box, paleOf(span.desc->step), colourOf(span.desc->step), where);
  }

  /// The text of a bar, over the arrows that cross it.
  void label(const RunSpan& span) {
    if (span.kind != RunSpanKind::Transfer) return;
    // All bars of a step have a text, or none has: one that is missing would say something else.
    const double size = std::min(11.0, rowHeight_ - 3);
    const auto widest = static_cast<double>(widest_.at(span.desc->step));
    const double width = static_cast<double>(span.end - span.begin) * stepWidth_;
    if (size < 6 || widest * size * 0.64 > width - 5) return;
    const SvgPoint centre = {(x(span.begin) + x(span.end)) / 2,
                             y(span.rank, span.queue) + rowHeight_ / 2};
    svg_.text(centre, peersText(span), {.size = size, .halo = paleOf(span.desc->step)});
  }

  void arrows(const RunSpan& span) {
    const bool isNet = span.kind == RunSpanKind::Net;
    for (const Arrow& arrow : arrowsOf(span)) {
      if (focus_ >= 0 && arrow.from != focus_ && arrow.to != focus_) continue;
      const auto end = [&](int rank) {
        if (rank == span.rank) return y(rank, span.queue) + rowHeight_ / 2;
        return isNet ? y(rank, span.peerQueue) + rowHeight_ / 2 : middle(rank);
      };
      // Bars of pulls and pushes begin and end with their transfer.
      const double inset = std::min(3.0, stepWidth_ / 5);
      svg_.line({x(span.begin) + inset, end(arrow.from)}, {x(span.end) - inset, end(arrow.to)},
                {.colour = isNet ? "#333333" : mixed(colourOf(span.desc->step), 0, 0.3),
                 .width = 1.1,
                 .dashed = isNet,
                 .arrow = true});
    }
  }

  std::span<const encProgram> programs_;
  const ProgramDrawing& what_;
  const ScheduleRun run_;
  Svg svg_;
  std::string note_;
  int focus_ = -1;  // whose arrows alone are drawn; -1: all
  std::vector<size_t> firstRow_;
  double rowHeight_ = 20, rankGap_ = 3, stepWidth_ = 40;
  std::map<encStep, size_t> colours_, counts_;
  std::map<encStep, size_t> widest_;  // text, in characters
  std::vector<encStep> order_;        // of their first appearance
};

}  // namespace

Result<DrawnProgram> drawProgram(std::span<const encProgram> programs,
                                 const ProgramDrawing& drawing) {
  if (programs.size() > static_cast<size_t>(kMaxDrawnRanks)) {
    return fail(ncclInvalidArgument,
                "a drawing of %zu ranks: want at most %d, for whose rows there is room; --ranks or "
                "--groups name fewer",
                programs.size(), kMaxDrawnRanks);
  }
  ScheduleRun run = TRY(runSchedule(programs, kMaxBars));
  return Drawing(programs, drawing, std::move(run)).draw();
}

}  // namespace nccom
