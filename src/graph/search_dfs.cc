#include "graph/search_dfs.h"

#include <algorithm>

#include "misc/check.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

constexpr int kPciOrderBudget = 1 << 10;  // steps; tried first as a reference, outside the budget

/// Booking and giving back must cancel out exactly; bandwidth counts in MB/s, rounded half away
/// from zero. (In double, the half is added exactly; std::round is a slow call.)
float subtract(float a, float b) {
  const float mbps = (a - b) * 1000;
  const double half = mbps < 0 ? -0.5 : 0.5;
  return static_cast<float>(static_cast<int>(static_cast<double>(mbps) + half)) / 1000;
}

}  // namespace

ChannelSearch::ChannelSearch(const ncclTopoSystem& system, SearchCandidates& candidates)
    : system_(system),
      candidates_(candidates),
      nGpus_(system.count(Type::Gpu)),
      nNets_(system.count(Type::Net)) {
  indexLinks(system);
  for (int a = 0; a < nGpus_; a++) {
    for (int b = 0; b < nGpus_; b++)
      gpuPaths_.push_back(flatten(gpuRef(a), gpuRef(b)));
  }
  for (int g = 0; g < nGpus_; g++)
    pciLinks_.push_back(pciLinkOf(g));
  if (!system.inter) return;
  for (int n = 0; n < nNets_; n++) {
    for (int g = 0; g < nGpus_; g++)
      netGpuPaths_.push_back(flatten(netRef(n), gpuRef(g)));
  }
  for (int g = 0; g < nGpus_; g++) {
    for (int n = 0; n < nNets_; n++)
      gpuNetPaths_.push_back(flatten(gpuRef(g), netRef(n)));
  }
}

void ChannelSearch::indexLinks(const ncclTopoSystem& system) {
  int nLinks = 0;
  for (int t = 0; t < kTopoNodeTypes; t++) {
    for (const ncclTopoNode& node : system.nodesOfType[t]) {
      firstLink_[t].push_back(nLinks);
      nLinks += static_cast<int>(node.links.size());
    }
  }
  for (const std::vector<ncclTopoNode>& nodes : system.nodesOfType) {
    for (int i = 0; i < static_cast<int>(nodes.size()); i++) {
      for (const ncclTopoLink& link : nodes[i].links) {
        links_.push_back(flatten(system, {nodes[i].type, i}, link));
      }
    }
  }
  for (const ncclTopoNode& net : system.nodes(Type::Net)) {
    netBw_.push_back(net.net.bwGBps);
  }
}

int ChannelSearch::pciLinkOf(int gpu) const {
  const int dev = system_.nodes(Type::Gpu)[gpu].gpu.parent;
  const std::vector<ncclTopoLink>& links = system_.nodes(Type::Dev)[dev].links;
  for (size_t i = 0; i < links.size(); i++) {
    if (links[i].type != ncclTopoLinkType::Pci) continue;
    return firstLink_[static_cast<int>(Type::Dev)][dev] + static_cast<int>(i);
  }
  return -1;
}

ChannelSearch::FlatLink ChannelSearch::flatten(const ncclTopoSystem& system, ncclTopoNodeRef node,
                                               const ncclTopoLink& link) const {
  const ncclTopoNode& remote = system.at(link.remote);
  const int back = reverseLinkIndex(system, node, link);
  NCCL_CHECK(back != -1);
  FlatLink flat;
  flat.bwGBps = link.bwGBps;
  flat.isPci = link.type == ncclTopoLinkType::Pci;
  flat.entersOldDevice =
      remote.type == Type::Dev && remote.dev.sm < 80 && !isNeuronSm(remote.dev.sm);
  flat.entersPowerCpu = remote.type == Type::Cpu && remote.cpu.arch == CpuArch::Power &&
                        link.type == ncclTopoLinkType::Nvl;
  flat.reverse = firstLink_[static_cast<int>(link.remote.type)][link.remote.index] + back;
  return flat;
}

ChannelSearch::FlatPath ChannelSearch::flatten(ncclTopoNodeRef from, ncclTopoNodeRef to) const {
  const ncclTopoPath& path = system_.path(from, to);
  FlatPath flat;
  flat.type = path.type;
  flat.reverseType = system_.path(to, from).type;
  for (const ncclTopoHop& hop : path.hops) {
    flat.links.push_back(firstLink_[static_cast<int>(hop.from.type)][hop.from.index] + hop.link);
    const ncclTopoNodeRef next = hopTarget(system_, hop);
    if (next.type != Type::Cpu || from.type != Type::Gpu || path.type != Path::Phb) continue;
    const ncclTopoCpu& cpu = system_.at(next).cpu;
    flat.isIntelDetour |= cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Intel;
  }
  return flat;
}

/// Takes bandwidth (negative: gives it back) on the first links of a path. False if a link has too
/// little; `booked` then says how many were booked.
bool ChannelSearch::book(const FlatPath& path, bool fromGpu, float bwGBps, size_t nLinks,
                         size_t* booked) {
  // An Intel CPU cuts device-to-device traffic into 64-byte packets.
  const float pciGBps = path.isIntelDetour ? bwGBps * 6 / 5 : bwGBps;
  for (size_t i = 0; i < nLinks; i++) {
    FlatLink& link = links_[path.links[i]];
    const float forward = link.isPci ? pciGBps : bwGBps;
    float backward = 0;  // acknowledgements on old devices; half-duplex links to POWER CPUs
    if (link.entersOldDevice && !fromGpu) backward += forward / 8;
    if (link.entersPowerCpu) backward += forward;
    FlatLink& reverse = links_[link.reverse];
    *booked = i;
    if (link.bwGBps < forward || (backward != 0 && reverse.bwGBps < backward)) {
      refusals_[path.links[i]]++;
      return false;
    }
    link.bwGBps = subtract(link.bwGBps, forward);
    if (backward != 0) reverse.bwGBps = subtract(reverse.bwGBps, backward);
  }
  *booked = nLinks;
  return true;
}

bool ChannelSearch::follow(const FlatPath& path, bool fromGpu, bool isIntra, float share) {
  const float bwGBps = (isIntra ? wanted_.bwIntra : wanted_.bwInter) * share;
  const Path maxType = isIntra ? wanted_.typeIntra : wanted_.typeInter;
  if (path.type == Path::Dis || path.type > maxType) return false;
  if (isTree() && path.reverseType > maxType) return false;  // a tree is used both ways
  size_t booked = 0;
  if (!book(path, fromGpu, bwGBps, path.links.size(), &booked)) {
    book(path, fromGpu, -bwGBps, booked, &booked);
    return false;
  }
  nHops_ += static_cast<int>(path.links.size());
  return true;
}

void ChannelSearch::unfollow(const FlatPath& path, bool fromGpu, bool isIntra, float share) {
  size_t booked = 0;
  const float bwGBps = (isIntra ? wanted_.bwIntra : wanted_.bwInter) * share;
  book(path, fromGpu, -bwGBps, path.links.size(), &booked);
  nHops_ -= static_cast<int>(path.links.size());
}

SearchTrial ChannelSearch::run(const ncclTopoGraph& wanted, ncclTopoGraph& best, int budget) {
  wanted_ = wanted;
  best_ = &best;
  nChannels_ = nMostChannels_ = 0;
  hasFound_ = false;
  refusals_.assign(links_.size(), 0);
  nHops_ = wanted.nHops;
  latencyInter_ = wanted.latencyInter;
  intra_.assign(static_cast<size_t>(wanted.maxChannels) * nGpus_, -1);
  netIn_.assign(wanted.maxChannels, -1);
  netOut_.assign(wanted.maxChannels, -1);
  used_.assign(nGpus_, 0);
  stack_.clear();
  int time = budget;
  searchChannel(&time);
  SearchTrial trial;
  trial.timeLeft = time;
  trial.nLaid = nMostChannels_;
  trial.nNeeded = wanted.minChannels;
  if (hasFound_) {
    trial.verdict = SearchTrial::Verdict::Found;
    trial.nLaid = best.nChannels;
  } else {
    if (time == 0) trial.verdict = SearchTrial::Verdict::Spent;
    const auto most = std::max_element(refusals_.begin(), refusals_.end());
    if (most != refusals_.end() && *most > 0)
      trial.link = static_cast<int>(most - refusals_.begin());
  }
  return trial;
}

/// The step at which a channel returns to the network, or to its first GPU.
ChannelSearch::Shape ChannelSearch::shape() const {
  if (!system_.inter) return {.backToNet = -1, .backToFirst = isTree() ? -1 : nGpus_ - 1};
  if (!isTree()) return {.backToNet = nGpus_ - 1, .backToFirst = -1};
  return {.backToNet = wanted_.pattern == ncclTopoPattern::SplitTree ? 1 : 0, .backToFirst = -1};
}

/// Lays the next channel in all ways that the budget allows.
void ChannelSearch::searchChannel(int* time) {
  if (system_.inter) {
    searchFromNets(time);
    return;
  }
  const Shape own = shape();
  if (nChannels_ == 0) {
    tryFirst(-1, 0, own, Order::Pci, time);
  } else {
    tryFirst(-1, replayed(-1), own, Order::Replay, time);
  }
  if (wanted_.sameChannels && nChannels_ > 0) return;
  for (int g = 0; g < nGpus_; g++)
    tryFirst(-1, g, own, Order::Free, time);
}

void ChannelSearch::searchFromNets(int* time) {
  const Shape own = shape();
  const auto bwGBps = static_cast<int>(wanted_.bwInter);  // whole GB/s, as in NCCL
  const std::vector<int>& nets = candidates_.nets(static_cast<int>(wanted_.typeInter), -1);
  for (size_t i = 0; i < nets.size(); i++) {
    const int net = nets[(nChannels_ + i) % nets.size()];
    const ncclTopoNet& facts = system_.nodes(Type::Net)[net].net;
    if (wanted_.collNet != 0 && !facts.coll) continue;
    if (netBw_[net] < static_cast<float>(bwGBps)) continue;
    // With alternating NICs, the odd channel runs the even one backwards.
    const bool isOdd = (nChannels_ & 1) != 0;
    const bool isPinned = !isTree() && wanted_.crossNic == 2 && isOdd;
    if (isPinned && net != netOut_[nChannels_ - 1]) continue;
    netIn_[nChannels_] = net;
    latencyInter_ = facts.latencyUs;
    shareNet(net, -bwGBps);
    searchFromNet(net, own, time);
    shareNet(net, bwGBps);
  }
}

void ChannelSearch::searchFromNet(int net, const Shape& shape, int* time) {
  if (nChannels_ > 0 && wanted_.sameChannels) {
    tryFirst(net, replayed(-1), shape, Order::Replay, time);
    return;
  }
  if (nChannels_ == 0 && system_.nodes(Type::Nvs).empty()) {
    int ownTime = kPciOrderBudget;
    tryFirst(net, 0, shape, Order::Pci, &ownTime);
    if (ownTime == -1) *time = -1;
  }
  const std::vector<int>& starts = candidates_.startGpus(net);
  for (const int gpu : starts)
    tryFirst(net, gpu, shape, Order::Free, time);
}

/// Ports of one card share its bandwidth when they have one guid and port.
void ChannelSearch::shareNet(int net, int bwGBps) {
  const ncclTopoNet& used = system_.nodes(Type::Net)[net].net;
  for (int i = 0; i < nNets_; i++) {
    const ncclTopoNet& other = system_.nodes(Type::Net)[i].net;
    if (other.asic == used.asic && other.port == used.port) {
      netBw_[i] += static_cast<float>(bwGBps);
    }
  }
}

void ChannelSearch::tryFirst(int net, int gpu, const Shape& shape, Order order, int* time) {
  if (net != -1 && !follow(netToGpu(net, gpu), false, false)) return;
  const uint64_t flag = uint64_t{1} << nChannels_;
  used_[gpu] ^= flag;
  visit(gpu, 0, shape, order, time);
  used_[gpu] ^= flag;
  if (net != -1) unfollow(netToGpu(net, gpu), false, false);
}

void ChannelSearch::tryNext(int from, int to, int step, const Shape& shape, Order order,
                            int* time) {
  const FlatPath& path = gpuToGpu(from, to);
  if (!follow(path, true, true)) return;
  const uint64_t flag = uint64_t{1} << nChannels_;
  used_[to] ^= flag;
  visit(to, step, shape, order, time);
  used_[to] ^= flag;
  unfollow(path, true, true);
}

void ChannelSearch::visit(int gpu, int step, const Shape& shape, Order order, int* time) {
  if (*time <= 0) return;
  (*time)--;
  intra_[nChannels_ * nGpus_ + step] = gpu;
  if (step == shape.backToNet) {
    visitNets(gpu, step, shape, order, time);
  } else if (step < nGpus_ - 1) {
    const size_t begin = stack_.size();
    nextGpus(gpu, step, shape, order);
    const size_t end = stack_.size();
    for (size_t i = begin; i<end&& * time> 0; i++) {
      tryNext(gpu, stack_[i], step + 1, shape, order, time);
    }
    stack_.resize(begin);
  } else if (step == shape.backToFirst) {
    closeRing(gpu, time);
  } else {
    if (*time <= 0) return;
    (*time)--;
    channelDone(time);
  }
}

/// The channel returns to a NET. A balanced tree does so from its first two GPUs, half from each.
void ChannelSearch::visitNets(int gpu, int step, const Shape& shape, Order order, int* time) {
  const bool isBalanced = wanted_.pattern == ncclTopoPattern::BalancedTree;
  const float share = isBalanced ? 0.5F : 1;
  const Shape rest = {.backToNet = isBalanced && step == 0 ? 1 : -1,
                      .backToFirst = shape.backToFirst};
  for (const int net : candidates_.nets(static_cast<int>(wanted_.typeInter), gpu)) {
    if (!mayEndAt(net, step) || !follow(gpuToNet(gpu, net), true, false, share)) continue;
    netOut_[nChannels_] = net;
    visit(gpu, step, rest, order, time);
    unfollow(gpuToNet(gpu, net), true, false, share);
  }
}

void ChannelSearch::closeRing(int gpu, int* time) {
  const int first = nChannels_ * nGpus_;
  const FlatPath& path = gpuToGpu(gpu, intra_[first]);
  if (!follow(path, true, true)) return;
  if (*time > 0) {
    (*time)--;
    channelDone(time);
  }
  unfollow(path, true, true);
}

/// Puts the GPUs to try after `gpu` on the stack.
void ChannelSearch::nextGpus(int gpu, int step, const Shape& shape, Order order) {
  switch (order) {
    case Order::Pci:
      stack_.push_back(step + 1);
      return;
    case Order::Replay:
      stack_.push_back(replayed(step));
      return;
    case Order::Free:
      break;
  }
  // The GPU before the last should be near the NET, the others rather not use up what is near it.
  const bool isBeforeNet = shape.backToNet != -1;
  candidates_.appendNext(
      {.gpu = gpu,
       .net = isBeforeNet ? netIn_[nChannels_] : -1,
       .mayReverse = isBeforeNet && shape.backToNet != step + 1,
       .pattern = wanted_.pattern},
      [&](int other) { return ((used_[other] >> nChannels_) & 1) != 0; },
      [&](int other) { return freePciBandwidth(other); }, stack_);
}

/// Whole GB/s left on the PCI link of a GPU's device; -1 if it has none.
int ChannelSearch::freePciBandwidth(int gpu) const {
  const int link = pciLinks_[gpu];
  if (link == -1) return -1;
  return static_cast<int>(std::min(links_[link].bwGBps, links_[links_[link].reverse].bwGBps));
}

void ChannelSearch::channelDone(int* time) {
  nChannels_++;
  nMostChannels_ = std::max(nMostChannels_, nChannels_);
  // More bandwidth in all wins, then fewer links; a minimum of channels must be there.
  const auto total = [](int channels, const ncclTopoGraph& graph) {
    return static_cast<float>(channels) * graph.bwIntra;
  };
  const float own = total(nChannels_, wanted_);
  const float known = total(best_->nChannels, *best_);
  const bool isAlike = wanted_.pattern == best_->pattern && wanted_.crossNic == best_->crossNic;
  const bool isShorter = own == known && isAlike && nHops_ < best_->nHops;
  if (nChannels_ >= wanted_.minChannels && (own > known || isShorter)) {
    save(*best_);
    hasFound_ = true;
    if (nChannels_ == wanted_.maxChannels) *time = -1;
  }
  if (nChannels_ < wanted_.maxChannels) searchChannel(time);
  nChannels_--;
}

void ChannelSearch::save(ncclTopoGraph& best) const {
  best = wanted_;
  best.nChannels = nChannels_;
  best.nHops = nHops_;
  best.latencyInter = latencyInter_;
  best.intra.assign(nChannels_, std::vector<int>(nGpus_));
  best.inter.clear();
  for (int c = 0; c < nChannels_; c++) {
    for (int i = 0; i < nGpus_; i++) {
      best.intra[c][i] = system_.nodes(Type::Gpu)[intra_[c * nGpus_ + i]].gpu.rank;
    }
    if (!system_.inter) continue;
    best.inter.push_back(
        {system_.nodes(Type::Net)[netIn_[c]].id, system_.nodes(Type::Net)[netOut_[c]].id});
  }
}

/// GPU index at `step` + 1 of the channel before.
int ChannelSearch::replayed(int step) const {
  return intra_[(nChannels_ - 1) * nGpus_ + step + 1];
}

/// Whether the channel may return to `net` at this step.
bool ChannelSearch::mayEndAt(int net, int step) const {
  const ncclTopoNode& end = system_.nodes(Type::Net)[net];
  const ncclTopoNode& start = system_.nodes(Type::Net)[netIn_[nChannels_]];
  const auto differ = [](int a, int b) { return a != kTopoUndef && b != kTopoUndef && a != b; };
  if (differ(end.net.plane, start.net.plane)) return false;
  if (wanted_.pattern == ncclTopoPattern::Tree && net != netIn_[nChannels_]) return false;
  if (wanted_.crossNic == 2 && !isTree()) {
    const bool isOdd = (nChannels_ & 1) != 0;
    return !isOdd || net == netIn_[nChannels_ - 1];
  }
  if (wanted_.crossNic == 0) {
    const bool haveRails = end.net.rail != kTopoUndef && start.net.rail != kTopoUndef;
    const bool isSamePort = end.net.asic == start.net.asic && end.net.port == start.net.port;
    if (haveRails ? end.net.rail != start.net.rail : !isSamePort) return false;
  }
  const bool isSecond = wanted_.pattern == ncclTopoPattern::BalancedTree && step != 0;
  // Both GPUs of a balanced tree return to one NET.
  return !isSecond || net == netOut_[nChannels_];
}

}  // namespace nccom
