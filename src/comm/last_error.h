// The text of the last failed call.
#pragma once

#include <string>

namespace nccom {

/// Remembers `text` as the calling thread's last error and as the process's.
void setLastError(const std::string& text);

/// The calling thread's last error; without one the process's, so that a watchdog thread can ask
/// what failed elsewhere. Never NULL; valid until the thread asks or fails again.
const char* lastError();

}  // namespace nccom
