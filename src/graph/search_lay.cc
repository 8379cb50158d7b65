// The channels of one attempt.
#include <algorithm>
#include <limits>

#include "graph/search_pack.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Costs = SearchModel::Costs;

constexpr int kPciOrderSteps = 1 << 10;
constexpr int kPolishSteps = 1 << 9;

constexpr uint64_t ofLink(int link) {
  return mixBits(static_cast<uint64_t>(link)) | 1;
}
constexpr uint64_t ofNet(int net) {
  return mixBits(0x10000U + static_cast<uint64_t>(net)) | 1;
}
constexpr uint64_t ofGpu(int gpu) {
  return mixBits(0x20000U + static_cast<uint64_t>(gpu));
}

}  // namespace

void ChannelPacker::search(int budget, bool closes, bool spreads) {
  time_ = budget;
  closes_ = closes;
  spreads_ = spreads;
  isDone_ = hasFound_ = false;
  polishSteps_ = 0;
  nChannels_ = nMostChannels_ = 0;
  nHops_ = 0;
  latencyInter_ = asked_->latencyInter;
  intra_.assign(static_cast<size_t>(asked_->maxChannels) * nGpus_, -1);
  netIn_.assign(asked_->maxChannels, -1);
  netOut_.assign(asked_->maxChannels, -1);
  isUsed_.assign(nGpus_, 0);
  std::fill(refusals_.begin(), refusals_.end(), 0);
  stack_.clear();
  salt_ = mixBits(salt_ + 1);
  usage_ = visited_ = 0;
  layChannel();
}

/// Takes a channel's bandwidth on all links of a path, or on none.
bool ChannelPacker::book(const Edge& edge, const Costs& costs) {
  const auto hops = model_.hops(edge);
  for (size_t i = 0; i < hops.size(); i++) {
    const Units cost = costs[hops[i].share];
    Units& left = capacity_[hops[i].link];
    if (left < cost) {
      refusals_[hops[i].link]++;
      release(edge, costs, static_cast<int>(i));
      return false;
    }
    left -= cost;
    usage_ += ofLink(hops[i].link) * static_cast<uint64_t>(cost);
  }
  return true;
}

void ChannelPacker::release(const Edge& edge, const Costs& costs, int nHops) {
  for (const SearchModel::Hop& hop : model_.hops(edge).first(nHops)) {
    const Units cost = costs[hop.share];
    capacity_[hop.link] += cost;
    usage_ -= ofLink(hop.link) * static_cast<uint64_t>(cost);
  }
}

/// Whether what is left may hold the channels that are still needed.
bool ChannelPacker::hasRoom() const {
  const int wanted = polishSteps_ > 0 ? nNeeded_ - 1 : nNeeded_;
  const int missing = wanted - nChannels_;
  return missing <= 0 || bound_.atMost(capacity_, netUnits_, missing) >= missing;
}

bool ChannelPacker::remember(uint64_t key) {
  uint64_t& place = seen_[key & (seen_.size() - 1)];
  if (place == key) return true;
  place = key;
  return false;
}

/// Whether this state was searched before in this attempt.
bool ChannelPacker::isSeen(const Place& place) {
  if (place.order != Order::Free || asked_->sameChannels) return false;
  const int first = task_.hasNets ? netIn_[nChannels_] : at(nChannels_, 0);
  const int toNet = task_.pattern == ncclTopoPattern::BalancedTree ? netOut_[nChannels_] : -1;
  uint64_t key = usage_ + salt_;
  key ^= visited_ + mixBits(static_cast<uint64_t>(place.gpu) << 32 |
                            static_cast<uint64_t>(place.backToNet + 1) << 20 |
                            static_cast<uint64_t>(first + 1));
  return remember(mixBits(key ^ static_cast<uint64_t>(toNet + 1) << 48));
}

/// Lays the next channel in all ways that the budget allows.
void ChannelPacker::layChannel() {
  if (isOver() || !hasRoom()) return;
  const bool isReplay = nChannels_ > 0 && asked_->sameChannels;
  if (nChannels_ > 0 && !isReplay) {
    // An odd channel of alternating NICs depends on the one before.
    const bool isOdd = asked_->crossNic == 2 && (nChannels_ & 1) != 0;
    const uint64_t pair = isOdd ? static_cast<uint64_t>(netIn_[nChannels_ - 1]) << 16 |
                                      static_cast<uint64_t>(netOut_[nChannels_ - 1] + 1)
                                : 0;
    if (remember(mixBits((usage_ + salt_) ^ mixBits(pair ^ 0xabcdefU)))) return;
  }
  if (task_.hasNets) {
    layFromNets();
    return;
  }
  if (nChannels_ == 0) {
    start(-1, 0, Order::Pci);
  } else {
    start(-1, at(nChannels_ - 1, 0), Order::Replay);
  }
  if (isReplay) return;
  if (!order_.empty()) start(-1, order_[0], Order::Hint);
  const int nStarts = closes_ ? 1 : nGpus_;  // a ring can be entered anywhere
  for (int g = 0; g < nStarts; g++)
    start(-1, g, Order::Free);
}

void ChannelPacker::layFromNets() {
  const std::vector<int>& nets = candidates_.nets(static_cast<int>(asked_->typeInter), -1);
  for (size_t i = 0; i < nets.size() && !isOver(); i++) {
    const int net = nets[(nChannels_ + i) % nets.size()];
    const ncclTopoNet& facts = system_.nodes(Type::Net)[net].net;
    if (asked_->collNet != 0 && !facts.coll) continue;
    if (netUnits_[net] < task_.netCost) continue;
    // With alternating NICs, the odd channel runs the even one backwards.
    const bool isPinned = !task_.isTree() && asked_->crossNic == 2 && (nChannels_ & 1) != 0;
    if (isPinned && net != netOut_[nChannels_ - 1]) continue;
    netIn_[nChannels_] = net;
    netOut_[nChannels_] = -1;
    latencyInter_ = facts.latencyUs;
    shareNet(net, -task_.netCost);
    layFromNet(net);
    shareNet(net, task_.netCost);
  }
}

void ChannelPacker::layFromNet(int net) {
  if (nChannels_ > 0 && asked_->sameChannels) {
    start(net, at(nChannels_ - 1, 0), Order::Replay);
    return;
  }
  if (nChannels_ == 0 && !hasSwitch_) {
    // A reference from the order of the system, outside the budget.
    const int time = time_;
    time_ = kPciOrderSteps;
    start(net, 0, Order::Pci);
    if (time_ != -1) time_ = time;
  }
  const std::vector<int>& gpus = candidates_.startGpus(net);
  if (!order_.empty()) {
    for (const int gpu : gpus)
      start(net, gpu, Order::Hint);
  }
  for (const int gpu : gpus)
    start(net, gpu, Order::Free);
}

/// Ports of one card share its bandwidth.
void ChannelPacker::shareNet(int net, Units units) {
  for (int i = 0; i < nNets_; i++) {
    if (model_.portOf(i) == model_.portOf(net)) netUnits_[i] += units;
  }
  usage_ -= ofNet(model_.portOf(net)) * static_cast<uint64_t>(units);
}

void ChannelPacker::start(int net, int gpu, Order order) {
  if (isOver()) return;
  if (net != -1) {
    const Edge& edge = model_.netToGpu(net, gpu);
    if (!task_.allowsInter(edge) || !book(edge, task_.inter)) return;
    nHops_ += edge.nLinks;
  }
  isUsed_[gpu] = 1;
  visited_ ^= ofGpu(gpu);
  visit({.gpu = gpu, .step = 0, .backToNet = firstBackToNet(), .order = order});
  visited_ ^= ofGpu(gpu);
  isUsed_[gpu] = 0;
  if (net == -1) return;
  release(model_.netToGpu(net, gpu), task_.inter);
  nHops_ -= model_.netToGpu(net, gpu).nLinks;
}

/// The step at which a channel returns to the network; -1: never.
int ChannelPacker::firstBackToNet() const {
  if (!task_.hasNets) return -1;
  if (!task_.isTree()) return nGpus_ - 1;
  return task_.pattern == ncclTopoPattern::SplitTree ? 1 : 0;
}

void ChannelPacker::visit(const Place& place) {
  if (isOver()) return;
  time_--;
  if (polishSteps_ > 0 && --polishSteps_ == 0 && nNeeded_ > bound_.atMost()) isDone_ = true;
  at(nChannels_, place.step) = place.gpu;
  if (isSeen(place)) return;
  if (place.step == place.backToNet) {
    visitNets(place);
  } else if (place.step < nGpus_ - 1) {
    goOn(place);
  } else if (closes_) {
    closeRing(place.gpu);
  } else {
    channelDone();
  }
}

/// The channel returns to a NET. A balanced tree does so from its first two GPUs, half from each.
void ChannelPacker::visitNets(const Place& place) {
  const bool isBalanced = task_.pattern == ncclTopoPattern::BalancedTree;
  const int netBefore = netOut_[nChannels_];
  Place rest = place;
  rest.backToNet = isBalanced && place.step == 0 ? 1 : -1;
  for (const int net : candidates_.nets(static_cast<int>(asked_->typeInter), place.gpu)) {
    const Edge& edge = model_.gpuToNet(place.gpu, net);
    if (!mayEndAt(net, place.step) || !task_.allowsInter(edge)) continue;
    if (!book(edge, task_.toNet)) continue;
    nHops_ += edge.nLinks;
    netOut_[nChannels_] = net;
    visit(rest);
    nHops_ -= edge.nLinks;
    release(edge, task_.toNet);
    netOut_[nChannels_] = netBefore;
    if (isOver()) return;
  }
}

/// What the fullest link of a path has left.
SearchModel::Units ChannelPacker::roomOf(const Edge& edge) const {
  Units room = std::numeric_limits<Units>::max();
  for (const SearchModel::Hop& hop : model_.hops(edge))
    room = std::min(room, capacity_[hop.link]);
  return room;
}

/// Sorts the candidates after `gpu`: those first whose links have the most left.
void ChannelPacker::spread(int gpu, size_t begin) {
  std::stable_sort(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end(),
                   [&](int a, int b) {
                     return roomOf(model_.gpuToGpu(gpu, a)) > roomOf(model_.gpuToGpu(gpu, b));
                   });
}

void ChannelPacker::goOn(const Place& place) {
  const size_t begin = stack_.size();
  switch (place.order) {
    case Order::Pci:
      stack_.push_back(place.step + 1);
      break;
    case Order::Replay:
      stack_.push_back(at(nChannels_ - 1, place.step + 1));
      break;
    case Order::Hint:
      stack_.push_back(orderNext_[place.gpu]);
      break;
    case Order::Free: {
      // The GPU before the last should be near the NET, the others rather not use up its links.
      const bool isBeforeNet = place.backToNet != -1;
      candidates_.appendNext(
          {.gpu = place.gpu,
           .net = isBeforeNet ? netIn_[nChannels_] : -1,
           .mayReverse = isBeforeNet && place.backToNet != place.step + 1,
           .pattern = closes_ ? ncclTopoPattern::Ring : task_.pattern},
          [&](int other) { return isUsed_[other] != 0; },
          [&](int other) { return freePciBandwidth(other); }, stack_);
      if (spreads_) spread(place.gpu, begin);
      break;
    }
  }
  const size_t end = stack_.size();
  for (size_t i = begin; i < end && !isOver(); i++) {
    const int next = stack_[i];
    const Edge& edge = model_.gpuToGpu(place.gpu, next);
    if (!task_.allowsIntra(edge) || !book(edge, task_.intra)) continue;
    nHops_ += edge.nLinks;
    isUsed_[next] = 1;
    visited_ ^= ofGpu(next);
    visit(
        {.gpu = next, .step = place.step + 1, .backToNet = place.backToNet, .order = place.order});
    visited_ ^= ofGpu(next);
    isUsed_[next] = 0;
    nHops_ -= edge.nLinks;
    release(edge, task_.intra);
  }
  stack_.resize(begin);
}

void ChannelPacker::closeRing(int gpu) {
  const Edge& edge = model_.gpuToGpu(gpu, at(nChannels_, 0));
  const bool isAlone = nGpus_ == 1;
  if (!isAlone && (!task_.allowsIntra(edge) || !book(edge, task_.intra))) return;
  nHops_ += edge.nLinks;
  channelDone();
  nHops_ -= edge.nLinks;
  if (!isAlone) release(edge, task_.intra);
}

void ChannelPacker::channelDone() {
  nChannels_++;
  nMostChannels_ = std::max(nMostChannels_, nChannels_);
  const bool isShorter = hasFound_ && nChannels_ == best_->nChannels && nHops_ < best_->nHops;
  if (nChannels_ >= nNeeded_ || isShorter) {
    save();
    if (nChannels_ == asked_->maxChannels) {
      time_ = -1;
      isDone_ = true;
    }
  }
  if (nChannels_ < asked_->maxChannels) {
    // The laid channel is no part of the next one.
    std::vector<uint8_t> used(nGpus_, 0);
    used.swap(isUsed_);
    const uint64_t visited = visited_;
    visited_ = 0;
    layChannel();
    visited_ = visited;
    used.swap(isUsed_);
  }
  nChannels_--;
}

void ChannelPacker::save() {
  if (!hasFound_ || nChannels_ > best_->nChannels) {
    nNeeded_ = nChannels_ + 1;
    polishSteps_ = kPolishSteps;
  }
  hasFound_ = true;
  ncclTopoGraph found = *asked_;
  found.nChannels = nChannels_;
  found.nHops = nHops_;
  found.latencyInter = latencyInter_;
  found.intra.assign(nChannels_, std::vector<int>(nGpus_));
  found.inter.clear();
  for (int c = 0; c < nChannels_; c++) {
    for (int i = 0; i < nGpus_; i++) {
      found.intra[c][i] = system_.nodes(Type::Gpu)[at(c, i)].gpu.rank;
    }
    if (!system_.inter) continue;
    found.inter.push_back(
        {system_.nodes(Type::Net)[netIn_[c]].id, system_.nodes(Type::Net)[netOut_[c]].id});
  }
  *best_ = std::move(found);
}

/// Whole GB/s left on the PCI link of a GPU's device; -1 if it has none.
int ChannelPacker::freePciBandwidth(int gpu) const {
  const int link = model_.pciLink(gpu);
  if (link == -1) return -1;
  const Units left = std::min(capacity_[link], capacity_[model_.reverseOf(link)]);
  return left / SearchModel::kPerGBps;
}

/// Whether the channel may return to `net` at this step.
bool ChannelPacker::mayEndAt(int net, int step) const {
  const int from = netIn_[nChannels_];
  const ncclTopoNet& end = system_.nodes(Type::Net)[net].net;
  const ncclTopoNet& begin = system_.nodes(Type::Net)[from].net;
  const bool havePlanes = end.plane != kTopoUndef && begin.plane != kTopoUndef;
  if (havePlanes && end.plane != begin.plane) return false;
  if (task_.pattern == ncclTopoPattern::Tree && net != from) return false;
  if (asked_->crossNic == 2 && !task_.isTree()) {
    return (nChannels_ & 1) == 0 || net == netIn_[nChannels_ - 1];
  }
  if (asked_->crossNic == 0) {
    const bool haveRails = end.rail != kTopoUndef && begin.rail != kTopoUndef;
    const bool isSamePort = model_.portOf(net) == model_.portOf(from);
    if (haveRails ? end.rail != begin.rail : !isSamePort) return false;
  }
  const bool isSecond = task_.pattern == ncclTopoPattern::BalancedTree && step != 0;
  return !isSecond || net == netOut_[nChannels_];  // both GPUs of a balanced tree to one NET
}

}  // namespace nccom
