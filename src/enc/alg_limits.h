// How large messages may be for an algorithm to be chosen: the size windows of mesh subtypes, and
// of the recursive doubling and halving between nodes.
//
// Windows are preferences, not capacities: composers take any size. Numbers that the runtime
// publishes are its own; the rest follows from the sizes that its documentation recommends.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "enc/alg_situation.h"
#include "enc/alg_types.h"

namespace nccom {

/// A situation with the switches that go with it.
struct encAlgCase {
  const encSituation& s;
  const encAlgOptions& o;
};

/// A set of operations, bit enc_op_type.
using encOpMask = uint16_t;
constexpr encOpMask opMask(enc_op_type op) {
  return static_cast<encOpMask>(1U << static_cast<unsigned>(op));
}
/// "AllGather, AllReduce"
std::string opMaskText(encOpMask ops);

/// The operations that are split into parts and put together: all algorithms have them.
constexpr encOpMask kGatherReduceOps = opMask(enc_op_type::AllGather) |
                                       opMask(enc_op_type::AllReduce) |
                                       opMask(enc_op_type::ReduceScatter);
constexpr encOpMask kAlltoAllOps = opMask(enc_op_type::AlltoAll) | opMask(enc_op_type::AlltoAllV);
constexpr uint64_t kUnlimited = UINT64_MAX;

/// A row of the table of windows.
struct encWindowLaw {
  const char* name;  // of the subtype
  enc_alg_type alg;
  enc_alg_mesh_type mesh;  // of the object; Invalid: the algorithm is no subtype of a mesh
  encOpMask ops;
  const char* where;  // for people
  bool (*applies)(const encAlgCase&);
  const char* minSays;
  uint64_t (*min)(const encAlgCase&);
  const char* maxSays;
  uint64_t (*max)(const encAlgCase&);
};
/// Every window there is, in the order in which subtypes take their slots.
std::span<const encWindowLaw> encWindowLaws();

/// One window. As in a mesh subtype of the runtime, a limit an operation; one whose maximum is 0 is
/// not composed. State buffer operands have limits of their own, which are equal here.
struct encWindow {
  const encWindowLaw* law = nullptr;
  // NOLINTBEGIN(readability-identifier-naming): the runtime's names
  std::array<uint64_t, kEncOps> op_min_limit{}, op_max_limit{};
  std::array<uint64_t, kEncOps> op_min_limit_sbuf{}, op_max_limit_sbuf{};
  // NOLINTEND(readability-identifier-naming)

  bool composes(enc_op_type op) const { return op_max_limit[static_cast<size_t>(op)] > 0; }
  /// More than the minimum (or a minimum of 0), at most the maximum.
  bool takes(const encSituation& situation) const;
};

/// The windows that apply in a situation, of all algorithms, in slot order.
std::vector<encWindow> encWindows(const encAlgCase& c);

/// The kind of mesh that would be built. Invalid: none. The runtime's dispatch by family; where its
/// condition for Trainium2 reads as "a rank a node", which has no chip to share, this is of one
/// node.
enc_alg_mesh_type encMeshType(const encSituation& situation);

/// 1 node x devices: RDH's upper end. 56 MB on 16 devices with a buffer of 40 MB.
uint64_t encIntraRdhMaxBytes(const encAlgCase& c);

}  // namespace nccom
