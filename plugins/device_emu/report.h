// In words: what an operation is, what it waits for, and what the others do meanwhile.
#pragma once

#include <string>

#include "plugins/device_emu/comm.h"

namespace nccom::emu {

/// "AllReduce count 1024 float sum (operation 17)". The caller keeps the operation from ending.
std::string describe(const Op& op);

/// What a rank of this host does, from what it shows; in relation to `op`, if there is one.
std::string describeRank(const Comm& comm, int32_t rank, const Op* op);

/// Why the current operation does not move: its queues' waits, grouped by the rank that has to do
/// something. The caller holds `control`.
std::string describeStall(const Comm& comm);

/// The state of this rank and of its peers on this host.
std::string describeComm(Comm& comm);

}  // namespace nccom::emu
