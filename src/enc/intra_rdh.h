// Recursive halving and doubling within a server: 2^k devices that form a cube (each is linked to
// the k devices whose routing id differs in one bit), with all of their 2, 4 or 8 logical cores.
//
//   reduce-scatter  on the device: rank l sums up, over its device, the parts of all ranks l; then
//                   axis by axis: with the rank l of the linked device, each takes half of what
//                   both hold
//   all-gather      axis by axis, in reverse: each writes what it holds to the other; then on the
//                   device: to the ranks across the RMTV and across the dies, who each pass half
//                   of it on to the rank across both; and to the core beside, where there is one
//   all-reduce      the one, then the other
//
// For B bytes of the message and n ranks, L on each of D devices, over all ranks:
//                   reads                          writes
//   reduce-scatter  (n + D - 1) B                  D B
//   all-gather      (2 D - 1 + h D + 4 b D) B      n B
//   all-reduce      (n + 3 D - 3 + h D + 4 b D) B  (n + D - 1) B
// where h is 1 if chunks go across both ways in halves, b 1 if there are cores beside (L = 8). Of
// halving, (D - 1) B are read across links, each one hop: the taker reads where it lies what is
// halved, nothing is copied. All-gather writes each byte once at each rank.
// Steps: 1 + k each way on the device and between them, 2 or 3 more to gather on the device.
//
// The runtime's transfer lists are not public; this follows the public description.
#pragma once

#include <vector>

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// Where the members are: a coordinate of the device in the cube, and one of the core on the device
/// (bit 0: across the RMTV, bit 1: across the dies, bit 2: the core beside).
struct encRdhGeometry {
  int axes = 0;                            // k
  int mateBits = 0;                        // log2 of the ranks of a device
  bool splitsDiagonal = true;              // half by each way; Trainium3: all by one
  std::vector<int> device, mate;           // [member] coordinates
  std::vector<std::vector<int>> memberAt;  // [device][mate]

  int devices() const { return 1 << axes; }
  int mates() const { return 1 << mateBits; }
  bool operator==(const encRdhGeometry&) const = default;
};

/// @param ranks  of one server
/// @error ncclInvalidArgument  devices that form no cube, or of which ranks are missing: names the
///                             first rank, what was found, and the rule
Result<encRdhGeometry> encRdhGeometryOf(const enc_comm_info& info, const std::vector<int>& ranks);

/// Appends a stage of AllReduce, ReduceScatter or AllGather whose members share memory. Messages
/// that the work area is too small for go in windows.
/// @error ncclInvalidArgument  another operation
Status encStageIntraRdh(encBuilder& builder, const encStage& stage, const encRdhGeometry& geometry);

}  // namespace nccom
