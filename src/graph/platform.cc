#include "graph/platform.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "misc/check.h"

namespace nccom {
namespace {

const std::array<const NeuronPlatform*, 1> kPlatforms = {&kTrn2x48xlarge};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

NeuronCore NeuronPlatform::coreAt(int logicalCore, int lnc) const {
  const int perDevice = logicalPerDevice(lnc);
  NeuronCore core;
  core.device = logicalCore / perDevice;
  core.slot = logicalCore % perDevice;
  const int firstSlot = core.slot * lnc;
  const int physical = devices[core.device].physicalCores[firstSlot];
  core.seng = physical / coresPerSeng;
  core.index = physical % coresPerSeng / lnc;
  return core;
}

int NeuronPlatform::coreOf(int device, int seng, int index, int lnc) const {
  for (int slot = 0; slot < logicalPerDevice(lnc); slot++) {
    const int logicalCore = device * logicalPerDevice(lnc) + slot;
    const NeuronCore core = coreAt(logicalCore, lnc);
    if (core.seng == seng && core.index == index) return logicalCore;
  }
  NCCL_CHECK(false);  // every engine group has its cores
}

std::vector<NeuronEdge> NeuronPlatform::edges(int lnc) const {
  std::vector<NeuronEdge> out;
  const int perSeng = coresPerSeng / lnc;
  const auto share = static_cast<float>(lnc);
  for (int from = 0; from < logicalCores(lnc); from++) {
    const NeuronCore core = coreAt(from, lnc);
    for (int index = 0; index < perSeng; index++) {
      if (index != core.index) {
        out.push_back({from, coreOf(core.device, core.seng, index, lnc), EdgeLocality::SharedMemory,
                       sharedGBps * share});
      }
      if (sengsPerDie > 1) {
        out.push_back({from, coreOf(core.device, core.seng ^ 1, index, lnc), EdgeLocality::Rmtv,
                       rmtvGBps * share / static_cast<float>(perSeng)});
      }
    }
    if (sengsPerDevice() > sengsPerDie) {
      out.push_back({from, coreOf(core.device, core.seng ^ sengsPerDie, core.index, lnc),
                     EdgeLocality::D2d, d2dGBps * share});
    }
    const int remote = devices[core.device].neighbours[core.seng];
    if (remote < 0) continue;
    const auto& back = devices[remote].neighbours;
    const auto remoteSeng =
        static_cast<int>(std::find(back.begin(), back.end(), core.device) - back.begin());
    NCCL_CHECK(remoteSeng < sengsPerDevice());
    out.push_back({from, coreOf(remote, remoteSeng, core.index, lnc), EdgeLocality::RemoteMla,
                   deviceLinkGBps / static_cast<float>(perSeng)});
  }
  std::sort(out.begin(), out.end(), [](const NeuronEdge& a, const NeuronEdge& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return out;
}

std::vector<std::string> platformNames() {
  std::vector<std::string> names;
  names.reserve(kPlatforms.size() + 1);
  for (const NeuronPlatform* platform : kPlatforms)
    names.emplace_back(platform->name);
  names.emplace_back(kHostPlatform);
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

Result<int> deviceCount(const std::string& platform, int lnc, int hostDevices) {
  if (platform == kHostPlatform) {
    if (hostDevices > 0) return hostDevices;
    return hostCoreCount();
  }
  const NeuronPlatform* found = TRY(findPlatform(platform));
  return found->logicalCores(TRY(checkLnc(*found, lnc)));
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
