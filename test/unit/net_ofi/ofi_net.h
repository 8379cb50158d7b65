// The plugin, linked into the test program, opened through its C table.
#pragma once

#include <rdma/fabric.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "include/plugin/nccl_net.h"
#include "plugin/net_versions.h"
#include "test/conformance/net_conformance.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace nccom {

/// libfabric reads FI_PROVIDER once, when it is first used, and then leaves out all others: it must
/// not see what the tests set for the plugin.
inline void startLibfabric() {
  static const bool started = [] {
    unsetenv("FI_PROVIDER");
    fi_info* found = nullptr;
    if (fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &found) == 0) {
      fi_freeinfo(found);
    }
    return true;
  }();
  (void)started;
}

inline NetUnderTest ofiNet(const std::string& name, const std::string& provider,
                           const std::string& protocol) {
  return {name, [=]() -> Result<std::shared_ptr<Net>> {
            startLibfabric();
            setenv("FI_PROVIDER", provider.c_str(), 1);
            setenv("NET_OFI_PROTOCOL", protocol.c_str(), 1);
            Library program = TRY(Library::program());
            return std::shared_ptr<Net>(TRY(openNetV8(std::move(program), &ncclNetPlugin_v8)));
          }};
}

}  // namespace nccom
