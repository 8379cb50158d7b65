#include "graph/platform.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "misc/check.h"

namespace nccom {
namespace {

const std::array<const NeuronPlatform*, 16> kPlatforms = {
    &kInf2x1xlarge,  &kInf2x8xlarge,          &kInf2x24xlarge,     &kInf2x48xlarge,
    &kTrn1x2xlarge,  &kTrn1x32xlarge,         &kTrn1nx32xlarge,    &kTrn2x3xlarge,
    &kTrn2x48xlarge, &kTrn2DocOrderx48xlarge, &kTrn2ux48xlarge,    &kTrn3px48xlarge,
    &kTrn3x48xlarge, &kTrn3Pairsx48xlarge,    &kTrn3Dev0x48xlarge, &kTrn3ex24xlarge};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// Logical slots of a host that is mounted turned count from the other die.
constexpr int kTurnedSlots = 6;
bool isTurned(int electedNode) {
  return electedNode % 2 == 1;
}

std::vector<int> sengsIn(uint8_t mask) {
  std::vector<int> sengs;
  for (int seng = 0; seng < kMaxSengsPerDevice; seng++) {
    if ((mask >> seng & 1) != 0) sengs.push_back(seng);
  }
  return sengs;
}

}  // namespace

NeuronCore NeuronPlatform::coreAt(int logicalCore, int lnc, int electedNode) const {
  const int perDevice = logicalPerDevice(lnc);
  NeuronCore core;
  core.device = logicalCore / perDevice;
  core.slot = logicalCore % perDevice;
  const int firstSlot = core.slot * lnc ^ (isTurned(electedNode) ? kTurnedSlots : 0);
  const int physical = devices[core.device].physicalCores[firstSlot];
  core.seng = physical / coresPerSeng;
  core.index = physical % coresPerSeng / lnc;
  return core;
}

int NeuronPlatform::coreOf(int device, int seng, int index, int lnc, int electedNode) const {
  for (int slot = 0; slot < logicalPerDevice(lnc); slot++) {
    const int logicalCore = device * logicalPerDevice(lnc) + slot;
    const NeuronCore core = coreAt(logicalCore, lnc, electedNode);
    if (core.seng == seng && core.index == index) return logicalCore;
  }
  NCCL_CHECK(false);  // every engine group has its cores
}

int NeuronPlatform::portTo(int device, int neighbour) const {
  const auto& ports = devices[device].neighbours;
  const auto found = std::find(ports.begin(), ports.end(), neighbour);
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

int NeuronPlatform::remoteSeng(int seng, uint8_t ownSengs, uint8_t remoteSengs) const {
  const std::vector<int> own = sengsIn(ownSengs);
  const std::vector<int> remote = sengsIn(remoteSengs);
  NCCL_CHECK(own.size() == remote.size());
  const auto place = std::find(own.begin(), own.end(), seng) - own.begin();
  NCCL_CHECK(place < static_cast<std::ptrdiff_t>(remote.size()));
  return remote[place];
}

std::vector<NeuronEdge> NeuronPlatform::edges(int lnc, int electedNode) const {
  std::vector<NeuronEdge> out;
  const int perSeng = coresPerSeng / lnc;
  const auto share = static_cast<float>(lnc);
  const auto coreIn = [&](int device, int seng, int index) {
    return coreOf(device, seng, index, lnc, electedNode);
  };
  for (int from = 0; from < logicalCores(lnc); from++) {
    const NeuronCore core = coreAt(from, lnc, electedNode);
    for (int index = 0; index < perSeng; index++) {
      if (index != core.index) {
        out.push_back({from, coreIn(core.device, core.seng, index), EdgeLocality::SharedMemory,
                       sharedGBps * share});
      }
      if (sengsPerDie > 1) {
        out.push_back({from, coreIn(core.device, core.seng ^ 1, index), EdgeLocality::Rmtv,
                       rmtvGBps * share / static_cast<float>(perSeng)});
      }
    }
    if (sengsPerDevice() > sengsPerDie) {
      out.push_back({from, coreIn(core.device, core.seng ^ sengsPerDie, core.index),
                     EdgeLocality::D2d, d2dGBps * share});
    }
    for (int port = 0; port < kMaxDevicePorts; port++) {
      const int remote = devices[core.device].neighbours[port];
      if (remote < 0 || (portSengs[port] >> core.seng & 1) == 0) continue;
      const int back = portTo(remote, core.device);
      NCCL_CHECK(back >= 0);
      const int seng = remoteSeng(core.seng, portSengs[port], portSengs[back]);
      const auto sharers =
          static_cast<float>(sengsIn(portSengs[port]).size()) * static_cast<float>(perSeng);
      out.push_back({from, coreIn(remote, seng, core.index), EdgeLocality::RemoteMla,
                     deviceLinkGBps / sharers});
    }
  }
  std::sort(out.begin(), out.end(), [](const NeuronEdge& a, const NeuronEdge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return out;
}

std::span<const NeuronPlatform* const> neuronPlatforms() {
  return kPlatforms;
}

std::vector<std::string> platformNames() {
  std::vector<std::string> names = {std::string(kDefaultPlatform), std::string(kHostPlatform),
                                    std::string(kHostNumaPlatform)};
  for (const NeuronPlatform* platform : kPlatforms) {
    if (platform->name != kDefaultPlatform) names.emplace_back(platform->name);
  }
  return names;
}

Result<const NeuronPlatform*> findPlatform(const std::string& name) {
  for (const NeuronPlatform* platform : kPlatforms) {
    if (platform->name == name) return platform;
  }
  return fail(ncclInvalidArgument, "unknown platform '%s'; known: %s", name.c_str(),
              joined(platformNames()).c_str());
}

Result<int> checkLnc(const NeuronPlatform& platform, int lnc) {
  if (lnc == 0) return platform.defaultLnc;
  if (std::find(platform.lncs.begin(), platform.lncs.end(), lnc) != platform.lncs.end()) {
    return lnc;
  }
  std::vector<std::string> sizes;
  sizes.reserve(platform.lncs.size());
  for (const int size : platform.lncs)
    sizes.push_back(std::to_string(size));
  return fail(ncclInvalidArgument, "%s has no logical core size %d; it has %s",
              std::string(platform.name).c_str(), lnc, joined(sizes).c_str());
}

Result<NeuronPodShape> findPodShape(const NeuronPlatform& platform, const std::string& name) {
  if (name.empty()) return kNoPod;
  std::vector<std::string> known;
  for (const NeuronPodShape& shape : platform.pods) {
    if (shape.name == name) return shape;
    known.emplace_back(shape.name);
  }
  return fail(ncclInvalidArgument, "%s has no pod '%s'; it has %s",
              std::string(platform.name).c_str(), name.c_str(),
              known.empty() ? "none" : joined(known).c_str());
}

Result<int> deviceCount(const std::string& platform, int lnc, int hostDevices) {
  if (isHostPlatform(platform)) {
    if (hostDevices > 0) return hostDevices;
    return hostUnitCount(hostUnit(platform));
  }
  const NeuronPlatform* found = TRY(findPlatform(platform));
  return found->logicalCores(TRY(checkLnc(*found, lnc)));
}

std::vector<int> printedNeighbours(const NeuronPlatform& platform, int device) {
  std::array<int, kMaxDevicePorts> listed = platform.devices[device].neighbours;
  if (!platform.reportedNeighbours.empty()) listed = platform.reportedNeighbours[device];
  std::vector<int> out;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(out),
               [](int neighbour) { return neighbour >= 0; });
  return out;
}

std::string cpuMask(std::string_view cpuList) {
  std::vector<uint32_t> words = {0};
  while (!cpuList.empty()) {
    const std::string_view range = cpuList.substr(0, cpuList.find(','));
    cpuList.remove_prefix(std::min(cpuList.size(), range.size() + 1));
    int first = 0;
    const char* end = range.data() + range.size();
    const char* dash = std::from_chars(range.data(), end, first).ptr;
    int last = first;
    if (dash != end) std::from_chars(dash + 1, end, last);
    if (last / 32 >= static_cast<int>(words.size())) words.resize(last / 32 + 1);
    for (int cpu = first; cpu <= last; cpu++)
      words[cpu / 32] |= 1U << cpu % 32;
  }
  std::string out;
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    std::array<char, 16> text = {};
    snprintf(text.data(), text.size(), "%08x", *word);
    out += (out.empty() ? "" : ",") + std::string(text.data());
  }
  return out;
}

}  // namespace nccom
