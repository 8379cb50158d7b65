// enc_comm_info of a group on known machines: for communicators, and for composing the programs of
// any machine inside one process.
#pragma once

#include <vector>

#include "enc/alg_describe.h"
#include "enc/comm_info.h"
#include "misc/result.h"

namespace nccom {

/// What of enc_comm_info follows from where the ranks are: platform, peers, situation, kangaring,
/// mlaCycles. The others stay.
///
/// @param servers  [rank] numbered by first appearance
/// @param cores    [rank] logical core of the server
/// @error ncclInvalidArgument  as encDescribe; or sizes that are not rank_n
Status encPlaceComm(const encMachine& machine, const std::vector<int>& servers,
                    const std::vector<int>& cores, enc_comm_info& info);

/// The rings of a communicator whose ranks are numbered server by server.
/// @return [channel][rank] in ring order
Result<std::vector<std::vector<int>>> encShapeRings(const encMachine& machine,
                                                    const std::vector<std::vector<int>>& coresOf);

/// The whole of it, with the rings that a communicator there would have. Ranks are numbered server
/// by server; servers of a pod share memory, others need the network.
///
/// @param coresOf  [server][rank of the server] logical cores
/// @error ncclInvalidArgument  as encDescribe; a rank that there is not
Result<enc_comm_info> encShapeComm(const encMachine& machine,
                                   const std::vector<std::vector<int>>& coresOf, int rank = 0);

}  // namespace nccom
