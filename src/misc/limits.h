// Limits that several layers share.
#pragma once

namespace nccom {

/// Channels of a communicator; the device ABI has as many queues for them.
/// @source NEC_MAX_CHANNELS
inline constexpr int kMaxChannels = 32;

}  // namespace nccom
