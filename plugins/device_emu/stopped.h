// Processes that do not run because somebody has stopped them.
#pragma once

#include <sys/types.h>

#include <string>

#include "plugins/device_emu/comm.h"

namespace nccom::emu {

/// Whether a process of this host is stopped, by a signal or a debugger. False if it cannot be
/// told.
bool isStopped(pid_t pid);

/// "; pid 4711 (ranks 8 to 15) is stopped" for each other process of the communicator that is: what
/// its ranks show of themselves is from before.
std::string stoppedProcesses(const Comm& comm);

}  // namespace nccom::emu
