// The logger that net plugins are given, and what they said last.
#pragma once

#include <string>

#include "include/plugin/nccl_net.h"
#include "misc/result.h"

namespace nccom {

/// Writes to this library's log, as subsystem NET besides those that the plugin names.
[[gnu::format(printf, 5, 6)]] void netPluginLog(ncclDebugLogLevel level, unsigned long subsystems,
                                                const char* file, int line, const char* format,
                                                ...);

/// The last WARN of the calling thread since it was last taken or forgotten: why a call failed.
std::string takeNetPluginWarning();
void forgetNetPluginWarning();

/// The Error of a call of a plugin that returned `code`, with its last warning.
Error netCallFailed(const std::string& net, const char* call, ncclResult_t code);

}  // namespace nccom
