#include "graph/search_order.h"

#include <algorithm>
#include <array>

namespace nccom {
namespace {

// A path of the next farther kind costs more than a few of the nearer one. Only the order of
// magnitude matters.
constexpr std::array<float, 12> kTypeCost = {0,   1,    8,    16,   64,    128,
                                             256, 1024, 1024, 4096, 16384, 65536};
constexpr int kMaxRounds = 64;  // improvement has long ended by then

class Tour {
 public:
  explicit Tour(const ncclTopoSystem& system) : n_(system.count(ncclTopoNodeType::Gpu)) {
    for (int a = 0; a < n_; a++) {
      for (int b = 0; b < n_; b++) {
        const ncclTopoPath& path = system.path(gpuRef(a), gpuRef(b));
        const float perGBps = path.bwGBps > 0 ? 1 / path.bwGBps : 1;
        cost_.push_back(kTypeCost[static_cast<size_t>(path.type)] +
                        0.1F * static_cast<float>(path.hops.size()) + perGBps);
      }
    }
  }

  std::vector<int> find() {
    startAtNearest();
    for (int round = 0; round < kMaxRounds; round++) {
      const bool reversed = reverseSegments();
      const bool moved = moveSegments();
      if (!reversed && !moved) break;
    }
    std::rotate(tour_.begin(), std::find(tour_.begin(), tour_.end(), 0), tour_.end());
    return tour_;
  }

 private:
  float cost(int a, int b) const { return cost_[a * n_ + b]; }
  int at(int i) const { return tour_[i % n_]; }

  void startAtNearest() {
    std::vector<bool> used(n_, false);
    tour_ = {0};
    used[0] = true;
    while (static_cast<int>(tour_.size()) < n_) {
      int best = -1;
      for (int b = 0; b < n_; b++) {
        if (!used[b] && (best == -1 || cost(tour_.back(), b) < cost(tour_.back(), best))) best = b;
      }
      used[best] = true;
      tour_.push_back(best);
    }
  }

  /// 2-opt: a-b ... c-d becomes a-c ... b-d.
  bool reverseSegments() {
    bool improved = false;
    for (int i = 0; i + 2 < n_; i++) {
      for (int j = i + 2; j < n_; j++) {
        const int a = at(i), b = at(i + 1), c = at(j), d = at(j + 1);
        if (a == d) continue;
        if (cost(a, c) + cost(b, d) + kGain >= cost(a, b) + cost(c, d)) continue;
        std::reverse(tour_.begin() + i + 1, tour_.begin() + j + 1);
        improved = true;
      }
    }
    return improved;
  }

  /// Or-opt: a run of 1 to 8 devices moves elsewhere, forwards or backwards.
  bool moveSegments() {
    bool improved = false;
    for (int length = 1; length <= 8 && length + 2 <= n_; length++) {
      for (int from = 0; from < n_; from++)
        improved |= moveSegment(from, length);
    }
    return improved;
  }

  bool moveSegment(int from, int length) {
    std::vector<int> turned = tour_;
    std::rotate(turned.begin(), turned.begin() + from, turned.end());
    const std::vector<int> run(turned.begin(), turned.begin() + length);
    std::vector<int> rest(turned.begin() + length, turned.end());
    const auto nRest = static_cast<int>(rest.size());
    const float freed = cost(rest.back(), run.front()) + cost(run.back(), rest.front()) -
                        cost(rest.back(), rest.front());
    float best = freed - kGain;
    int bestPlace = -1;
    bool bestBackwards = false;
    for (int i = 0; i + 1 < nRest; i++) {  // between rest[i] and rest[i + 1]
      const float opened = cost(rest[i], rest[i + 1]);
      const float forwards = cost(rest[i], run.front()) + cost(run.back(), rest[i + 1]) - opened;
      const float backwards = cost(rest[i], run.back()) + cost(run.front(), rest[i + 1]) - opened;
      if (std::min(forwards, backwards) >= best) continue;
      best = std::min(forwards, backwards);
      bestPlace = i;
      bestBackwards = backwards < forwards;
    }
    if (bestPlace == -1) return false;
    tour_.swap(rest);
    const auto place = tour_.begin() + bestPlace + 1;
    if (bestBackwards) {
      tour_.insert(place, run.rbegin(), run.rend());
    } else {
      tour_.insert(place, run.begin(), run.end());
    }
    return true;
  }

  static constexpr float kGain = 1e-3F;  // less is rounding, and could go on for ever
  const int n_;
  std::vector<float> cost_;
  std::vector<int> tour_;
};

}  // namespace

std::vector<int> searchOrder(const ncclTopoSystem& system) {
  if (system.count(ncclTopoNodeType::Gpu) == 0) return {};
  return Tour(system).find();
}

}  // namespace nccom
