#include "plugin/net.h"

#include <strings.h>

#include <algorithm>

#include "plugin/library.h"
#include "plugin/net_versions.h"

namespace nccom {
namespace {

struct Version {
  const char* symbol;
  Result<std::unique_ptr<Net>> (*open)(Library library, const void* table);
};

// Newest first: of several versions that a file has, the first here is used.
constexpr Version kVersions[] = {
    {"ncclNetPlugin_v8", openNetV8},
};

// Versions that a file is searched for when it has none of ours, so that the error can say.
constexpr int kProbedVersions = 20;

bool sameName(const std::string& a, const std::string& b) {
  return strcasecmp(a.c_str(), b.c_str()) == 0;
}

std::vector<std::string> splitNames(const std::string& list) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const size_t first = list.find_first_not_of(" \t", at);
    if (first < comma) {
      out.push_back(list.substr(first, list.find_last_not_of(" \t", comma - 1) - first + 1));
    }
    at = comma + 1;
  }
  return out;
}

Error noKnownVersion(const Library& library) {
  std::string known, found;
  for (const Version& version : kVersions)
    known += std::string(" ") + version.symbol;
  for (int number = 1; number <= kProbedVersions; ++number) {
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(number);
    if (library.symbol(symbol) != nullptr) found += " " + symbol;
  }
  return fail(ncclInvalidUsage, "%s: exports no table that is known here (%s); it has%s",
              library.path().c_str(), known.c_str() + 1, found.empty() ? " none" : found.c_str());
}

Result<std::unique_ptr<Net>> openPlugin(const std::string& name, const std::string& folder) {
  Library library = TRY(findLibrary({name, {"libnccl-net-*.so", "libnccom-net-*.so"}, folder}));
  for (const Version& version : kVersions) {
    if (const void* table = library.symbol(version.symbol)) {
      return version.open(std::move(library), table);
    }
  }
  return noKnownVersion(library);
}

Error noneUsable(const NetChoice& choice, const std::string& reasons) {
  if (choice.plugin.empty()) {
    return fail(ncclInvalidUsage, "builtin net (NCCL_NET_PLUGIN is not set): %s", reasons.c_str());
  }
  return fail(ncclInvalidUsage, "NCCL_NET_PLUGIN '%s' cannot be used: %s", choice.plugin.c_str(),
              reasons.c_str());
}

}  // namespace

Result<std::shared_ptr<Net>> openNet(const NetChoice& choice, const BuiltinNet& builtin) {
  return NetRegistry(builtin).open(choice);
}

/// Opens one entry of the list, unless it is open, and checks that it can be used.
Result<std::shared_ptr<Net>> NetRegistry::openEntry(const std::string& entry,
                                                    const NetChoice& choice) {
  const bool isBuiltin = sameName(entry, "none") || sameName(entry, "socket");
  const std::string key = isBuiltin ? "none" : entry;
  std::shared_ptr<Net> net;
  if (const auto known = nets_.find(key); known != nets_.end()) {
    net = known->second;
  } else {
    const std::string folder = choice.folder.empty() ? ownFolder() : choice.folder;
    net = isBuiltin ? TRY(builtin_()) : TRY(openPlugin(entry, folder));
    nets_.emplace(key, net);
  }
  if (!choice.net.empty() && !sameName(net->name(), choice.net)) {
    return fail(ncclInvalidUsage, "net %s (%s) is not the net that NCCL_NET names, '%s'",
                net->name().c_str(), net->origin().c_str(), choice.net.c_str());
  }
  const int devices = TRY(net->devices());
  if (devices <= 0) {
    return fail(ncclInvalidUsage, "net %s (%s) has %d devices", net->name().c_str(),
                net->origin().c_str(), devices);
  }
  INFO(kLogInit | kLogNet, "NET net %s, devices %d, %s", net->name().c_str(), devices,
       net->origin().c_str());
  return net;
}

Result<std::shared_ptr<Net>> NetRegistry::open(const NetChoice& choice) {
  std::vector<std::string> entries = splitNames(choice.plugin);
  if (entries.empty() && !choice.plugin.empty()) {
    return noneUsable(choice, "the list holds no name");
  }
  if (entries.empty()) entries.emplace_back("none");
  const std::lock_guard lock(mutex_);
  std::string reasons;
  for (const std::string& entry : entries) {
    auto net = openEntry(entry, choice);
    if (net.ok()) return net;
    if (entries.size() > 1) {
      INFO(kLogInit | kLogNet, "NET %s: %s", entry.c_str(), net.error().message.c_str());
      reasons += (reasons.empty() ? "" : " | ") + entry + ": ";
    }
    reasons += net.error().message;
  }
  return noneUsable(choice, reasons);
}

}  // namespace nccom
