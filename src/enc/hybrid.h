// The hybrid ring: rings over the devices of a server, where a group has one rank on each. The
// runtime builds them itself, from cycles of devices, so that groups at different slots of the
// devices run over the same links in the same order.
//
// There are four channels: two cycles that share no link, each both ways. They are ordered so that
// any number of channels, from the first on, uses as many cycles as it can; a short message runs on
// a part of them, as rings of no other kind do in the runtime.
//
// Gateways. A port of a device is driven by certain engine groups. A hop whose port at the far end
// is driven by the neighbour's own core ends at that core: finished data is written to the
// neighbour's OUTPUT. Any other hop ends at a gateway, the core that drives the port: everything
// goes into the gateway's buffer first, and the neighbour fetches it from there, one read and one
// write more for each finished byte. The gateway holds no rank of the group, as the group has one
// rank a device; so its buffer is kept for it in the neighbour's scratch: the slots of the channel.
//
// When hops use gateways is not public; that they do, decided hop by hop, is.
#pragma once

#include <vector>

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/layout.h"
#include "enc/ring.h"
#include "misc/result.h"

namespace nccom {

constexpr int kHybridChannels = 4;

/// The rings of a hybrid group, as many as `layout` has ring channels for.
///
/// @param info  with info.situation.isHybridRing()
/// @error ncclInvalidArgument  another group, or cycles that are not two over all its devices, with
///                             a link for each hop
Result<std::vector<encRingOrder>> encHybridRings(const enc_comm_info& info,
                                                 const encLayout& layout);

/// This rank's program over the hybrid rings, whatever the options say.
///
/// @param task  an operation of rings
/// @error ncclInvalidArgument  info or task are wrong by themselves; see encHybridRings
Result<encProgram> encComposeHybridRing(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
