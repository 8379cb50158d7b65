// The slow look at a communicator: deaths, deadlines, and what others are shown.
#pragma once

#include "plugins/device_emu/comm.h"

namespace nccom::emu {

/// To be called every few milliseconds while anybody works. Fails `comm` if a peer has died or
/// left while it is needed, or if its operation has made no progress for too long. Time in which
/// nobody looked (a stopped process, no thread at work) does not count.
void watchComm(Comm& comm, Clock::time_point now);

}  // namespace nccom::emu
