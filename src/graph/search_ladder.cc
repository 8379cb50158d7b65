#include "graph/search_ladder.h"

#include <algorithm>

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

// ---- bandwidths that are tried, GB/s of one channel ---------------------------------------------
// @source NCCL 2.30 for its generations; the Neuron collectives library for Trainium
constexpr std::array kIntraOld = {40.0F, 30.0F, 20.0F, 18.0F, 15.0F, 12.0F, 10.0F,
                                  9.0F,  7.0F,  6.0F,  5.0F,  4.0F,  3.0F};
constexpr std::array kInterOld = {48.0F, 30.0F, 28.0F, 24.0F, 20.0F, 18.0F, 15.0F,
                                  12.0F, 10.0F, 9.0F,  7.0F,  6.0F,  5.0F,  4.0F,
                                  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};
constexpr std::array kIntra90 = {60.0F, 50.0F, 40.0F, 30.0F, 24.0F, 20.0F,
                                 15.0F, 12.0F, 11.0F, 6.0F,  3.0F};
constexpr std::array kInter90 = {48.0F, 45.0F, 42.0F, 40.0F, 30.0F, 24.0F, 22.0F, 20.0F, 17.5F,
                                 15.0F, 12.0F, 6.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};
constexpr std::array kIntra100 = {90.0F, 80.0F, 70.0F, 60.0F, 50.0F, 45.0F,
                                  40.0F, 30.0F, 24.0F, 20.0F, 19.0F, 18.0F};
constexpr std::array kInter100 = {96.0F, 86.0F, 80.0F, 48.0F, 45.1F, 42.0F, 40.0F,
                                  30.0F, 24.0F, 22.0F, 20.0F, 17.5F, 15.0F, 12.0F,
                                  6.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};
constexpr std::array kNeuron = {42.0F, 30.0F, 24.0F, 21.0F, 18.0F, 15.0F, 12.0F, 10.0F, 9.0F,
                                7.0F,  6.0F,  5.0F,  4.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};

/// Whether the fabric falls in two halves with something slower in between.
bool hasSplitFabric(const ncclTopoSystem& system) {
  const int nGpus = system.count(Type::Gpu);
  std::vector<int> domain(nGpus);
  std::vector<int> members(nGpus, 0);
  for (int g = 0; g < nGpus; g++)
    domain[g] = g;
  for (int g = 0; g < nGpus; g++) {
    for (int p = g + 1; p < nGpus; p++) {
      if (system.path(gpuRef(g), gpuRef(p)).type == Path::Nvl) domain[p] = domain[g];
    }
  }
  for (const int d : domain)
    members[d]++;
  return std::count_if(members.begin(), members.end(), [](int m) { return m > 1; }) == 2;
}

}  // namespace

int minSm(const ncclTopoSystem& system) {
  int sm = system.nodes(Type::Gpu)[0].gpu.sm;
  for (const ncclTopoNode& gpu : system.nodes(Type::Gpu))
    sm = std::min(sm, gpu.gpu.sm);
  return sm;
}

std::span<const float> searchSpeeds(const ncclTopoSystem& system) {
  const int sm = minSm(system);
  const bool inter = system.inter;
  if (isNeuronSm(sm)) return kNeuron;
  if (sm >= 100) return inter ? std::span<const float>(kInter100) : kIntra100;
  if (sm >= 90) return inter ? std::span<const float>(kInter90) : kIntra90;
  return inter ? std::span<const float>(kInterOld) : kIntraOld;
}

SearchLadder::SearchLadder(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                           const SearchBudgets& budgets, SearchCandidates& candidates,
                           ChannelFinder& finder)
    : system_(system),
      sm_(minSm(system)),
      speeds_(searchSpeeds(system)),
      budgets_(budgets),
      globalBudget_(budgets.global),
      candidates_(candidates),
      finder_(finder),
      best_(wanted) {
  setBounds(wanted);
}

ncclTopoGraph SearchLadder::climb() {
  startSpeed();
  do {
    attempt();
    if (isOptimal()) break;
  } while (relax());
  nFirstRungs_ = rungs_.size();
  isClimbing_ = false;
  duplicateChannels();
  raiseBandwidth();
  explain();
  if (best_.nChannels == 0) fallBack();
  return std::move(best_);
}

ncclTopoGraph SearchLadder::finish(const ncclTopoGraph& incumbent) {
  best_ = incumbent;
  duplicateChannels();
  raiseBandwidth();
  return std::move(best_);
}

void SearchLadder::setBounds(const ncclTopoGraph& wanted) {
  const bool canCross = system_.count(Type::Net) > 1 && best_.pattern != ncclTopoPattern::Tree;
  crossNic_ = canCross ? wanted.crossNic : 0;
  best_.crossNic = crossNic_ == 1 ? 1 : 0;
  best_.bwIntra = best_.bwInter = best_.latencyInter = 0;
  best_.nChannels = best_.nHops = 0;
  best_.intra.clear();
  best_.why.clear();
  best_.inter.clear();
  if (system_.count(Type::Gpu) > 1) {
    const ncclTopoPathRange range = ncclTopoGetGpuPathRange(system_, Type::Gpu);
    minTypeIntra_ = range.min;
    maxTypeIntra_ = range.max;
  }
  if (system_.inter) {
    const ncclTopoPathRange range = ncclTopoGetGpuPathRange(system_, Type::Net);
    minTypeInter_ = range.min;
    maxTypeInter_ = maxTypeIntra_ = range.max;
  }
  if (sm_ < 90) maxTypeInter_ = Path::Sys;
  best_.typeIntra = minTypeIntra_;
  best_.typeInter = minTypeInter_;
  best_.sameChannels = true;
  const bool isRing = best_.pattern == ncclTopoPattern::Ring;
  if (system_.count(Type::Gpu) == 1 && !isRing) best_.pattern = ncclTopoPattern::Tree;
  // Two halves: a tree will need two channels, and rings have as many.
  const bool needsTwo = isRing && !isNeuronSm(sm_) && hasSplitFabric(system_);
  if (needsTwo && best_.maxChannels >= 2 && best_.minChannels == 1) best_.minChannels = 2;
  asked_ = best_;
  const ncclTopoCpu& cpu = system_.nodes(Type::Cpu)[0].cpu;
  isAmd_ = cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Amd;
}

void SearchLadder::startSpeed() {
  // What does not return to its start leaves one device's links free.
  float totalBw = system_.totalBw;
  const int nDevs = system_.count(Type::Dev);
  if (nDevs > 1 && asked_.pattern != ncclTopoPattern::Ring) {
    totalBw = static_cast<float>(totalBw * (nDevs * 1.0 / (nDevs - 1)));
  }
  const auto isTooMuch = [&](float speed) {
    return speed > system_.maxBw || speed * static_cast<float>(asked_.minChannels) > totalBw;
  };
  while (hasSlower() && isTooMuch(speeds_[speed_]))
    speed_++;
  setSpeed();
}

void SearchLadder::attempt() {
  const int budget = asked_.sameChannels ? budgets_.sameChannels : budgets_.attempt;
  globalBudget_ -= budget;
  const SearchTrial trial = finder_.run(asked_, best_, budget);
  time_ = trial.timeLeft;
  if (isClimbing_ && trial.verdict == SearchTrial::Verdict::Found) incumbents_.push_back(best_);
  rungs_.push_back({asked_.bwIntra, asked_.bwInter, asked_.typeIntra, asked_.typeInter,
                    asked_.pattern, asked_.crossNic, asked_.sameChannels, trial});
}

bool SearchLadder::isOptimal() const {
  return time_ == -1 || static_cast<float>(best_.nChannels) * best_.bwInter >= system_.totalBw;
}

bool SearchLadder::relax() {
  const bool found = best_.nChannels > 0;
  const bool isAmdSys = isAmd_ && asked_.typeIntra == Path::Sys;
  if (asked_.sameChannels && !isAmdSys) {
    asked_.sameChannels = false;
    return true;
  }
  asked_.sameChannels = true;
  globalBudget_ += time_;
  if (globalBudget_ < 0 && found) return false;
  return relaxPattern() || relaxTypes(found) || relaxCrossNic() || relaxSpeed(found);
}

/// A tree whose first device alone talks to the network.
bool SearchLadder::relaxPattern() {
  if (sm_ >= 90 && asked_.pattern == ncclTopoPattern::BalancedTree) {
    asked_.pattern = ncclTopoPattern::Tree;
    return true;
  }
  asked_.pattern = best_.pattern;
  return false;
}

bool SearchLadder::relaxTypes(bool found) {
  const auto next = [](Path type) { return static_cast<Path>(static_cast<int>(type) + 1); };
  const Path maxIntra = system_.inter ? asked_.typeInter : maxTypeIntra_;
  if (asked_.typeIntra < maxIntra && (!found || asked_.typeIntra < best_.typeIntra)) {
    asked_.typeIntra = next(asked_.typeIntra);
    if (asked_.typeIntra < Path::Dis) return true;
  }
  asked_.typeIntra = minTypeIntra_;
  const bool mayHelp = !found || asked_.typeInter < best_.typeInter || asked_.typeInter < Path::Pxn;
  if (system_.inter && asked_.typeInter < maxTypeInter_ && mayHelp) {
    asked_.typeInter = next(asked_.typeInter);
    if (asked_.typeInter < Path::Dis) return true;
  }
  asked_.typeInter = minTypeInter_;
  return false;
}

bool SearchLadder::relaxCrossNic() {
  const bool mayCross =
      best_.pattern == ncclTopoPattern::Ring || best_.pattern == ncclTopoPattern::BalancedTree;
  if (crossNic_ == 2 && asked_.crossNic == 0 && mayCross) {
    asked_.crossNic = 2;
    return true;
  }
  asked_.crossNic = crossNic_ == 1 ? 1 : 0;
  return false;
}

/// Half the bandwidth cannot win any more once something is found.
bool SearchLadder::relaxSpeed(bool found) {
  if (!hasSlower() || (found && speeds_[speed_ + 1] / best_.bwInter <= 0.49F)) return false;
  speed_++;
  setSpeed();
  return true;
}

/// Two channels of half the bandwidth keep more of the device busy than one.
void SearchLadder::duplicateChannels() {
  if (best_.nChannels == 0 || best_.bwIntra < 25) return;
  if (sm_ > 80 && best_.bwIntra < 50 && best_.nChannels > 4) return;
  const int nBefore = best_.nChannels;
  const int nAfter = std::min(2 * nBefore, best_.maxChannels);
  const int copies = (nAfter + nBefore - 1) / nBefore;
  const auto share = static_cast<float>(copies);
  for (int c = nBefore; c < nAfter; c++) {
    best_.intra.push_back(best_.intra[c - nBefore]);
    if (system_.inter) best_.inter.push_back(best_.inter[c - nBefore]);
  }
  best_.bwIntra /= share;
  best_.bwInter /= share;
  best_.nChannels = nAfter;
  duplicated_ = std::to_string(nBefore) + " channels made " + std::to_string(nAfter) +
                ": more of the device is busy at the same bandwidth in all";
}

/// With the channels found, a ring may get all its bandwidths higher, a tree those inside.
void SearchLadder::raiseBandwidth() {
  asked_ = best_;
  speed_ = 0;
  while (hasSlower() && speeds_[speed_] > best_.bwInter)
    speed_++;
  setSpeed();
  asked_.minChannels = best_.nChannels;
  time_ = -1;
  while (time_ != 0 && speed_ > 0 && mayRaise()) {
    speed_--;
    asked_.bwIntra = speeds_[speed_];
    if (best_.pattern == ncclTopoPattern::Ring) asked_.bwInter = asked_.bwIntra;
    attempt();
  }
}

bool SearchLadder::mayRaise() const {
  if (best_.pattern == ncclTopoPattern::Ring) return true;
  return asked_.bwIntra == best_.bwIntra && asked_.bwIntra < asked_.bwInter * 2;
}

void SearchLadder::fallBack() {
  std::vector<int> ranks;
  for (const ncclTopoNode& gpu : system_.nodes(Type::Gpu))
    ranks.push_back(gpu.gpu.rank);
  best_.intra = {ranks};
  best_.nChannels = 1;
  best_.bwIntra = 0.1F;
  best_.typeIntra = Path::Sys;
  best_.bwInter = 0;
  best_.typeInter = Path::Dis;
  if (!system_.inter) return;
  const std::vector<int>& in = candidates_.nets(-1, 0);
  const std::vector<int>& out = candidates_.nets(-1, system_.count(Type::Gpu) - 1);
  if (in.empty() || out.empty()) {
    best_.inter = {{-1, -1}};
    return;
  }
  best_.inter = {{system_.nodes(Type::Net)[in[0]].id, system_.nodes(Type::Net)[out[0]].id}};
  best_.bwInter = 0.1F;
  best_.typeInter = Path::Sys;
}

}  // namespace nccom
