// Where the ranks of a communicator are, and how its algorithms are chosen: from parameters and
// peers to what composers read.
#pragma once

#include <string>
#include <vector>

#include "enc/comm_shape.h"
#include "misc/params.h"
#include "misc/result.h"

namespace nccom {

struct HostOfDevice;

struct CommPlaces {
  encMachine machine;
  std::vector<int> servers;  // [rank]
  std::vector<int> cores;    // [rank] logical core of the server
  bool rings = false;        // wanted: servers share memory, and no exchange finds them
  bool operator==(const CommPlaces&) const = default;
};

/// Places of the ranks. Servers of different platforms, or that a topology file describes, count as
/// plain hosts that share memory inside.
///
/// @param hosts    [rank] of the rank's device
/// @param servers  [rank]
/// @param sharing  servers share memory: of one pod
CommPlaces placesOf(const ncclParams& params, const std::vector<HostOfDevice>& hosts,
                    std::vector<int> servers, bool sharing);

/// @error as encPlaceComm, encShapeRings
Result<enc_comm_info> describePlaces(const CommPlaces& places);

/// @param scope  what "rdh" stands for
/// @error ncclInvalidArgument  NCCOM_ALG names no algorithm; a number out of range: names the
///                             variable
Result<encAlgOptions> algOptionsOf(const ncclParams& params, enc_comm_type scope);

/// What differs from the defaults, for ranks to compare: "NCCOM_ALG=mesh".
std::string algOptionsText(const ncclParams& params);

}  // namespace nccom
