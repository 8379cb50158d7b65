// What each stage of a hierarchical operation is composed by.
//
// The stages are fixed: AllReduce reduces and scatters within nodes, reduces between them, gathers
// within; ReduceScatter is the first two of them in one; AllGather gathers between nodes first,
// where the links are slow and the data is still small.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "enc/alg_situation.h"
#include "enc/alg_types.h"
#include "misc/result.h"

namespace nccom {

/// The five slots of the runtime, in its order.
enum class encHierSlot : uint8_t {
  IntraAllGather,
  IntraReduceScatter,
  InterAllReduce,
  InterAllGather,
  InterReduceScatter,
};
constexpr int kHierSlots = 5;
/// "alg_intra_allg", as the runtime's log has it.
const char* toText(encHierSlot slot);

struct encHierChoice {
  enc_alg_type alg = enc_alg_type::Ring;
  std::string subtype;              // of a mesh or RDH, see encAlgSelection
  std::vector<std::string> losers;  // a reason for each candidate before it
  bool operator==(const encHierChoice&) const = default;
};
using encHierChoices = std::array<encHierChoice, kHierSlots>;

/// The candidates of a slot, in order; a ring takes it where none is possible.
std::vector<enc_alg_type> encHierCandidates(encHierSlot slot);

/// The stages of an operation in the order in which they run; none: it has no hierarchical form.
std::vector<encHierSlot> encHierStages(enc_op_type op);

/// The group of a stage, as a situation of its own, with the stage's operation and size: stages
/// within nodes have the whole message, those between nodes a node's ranks share it.
///
/// The runtime looks at slots by the size of a part: within nodes by intra_slice, a rank's bytes by
/// the ranks of a node, rounded up; between nodes by inter_slice, node_n times that.
/// encSituation::bytes is of all parts together, which is local_rank_n intra_slices within nodes.
encSituation encHierStage(const encSituation& situation, encHierSlot slot);

/// All five, whether the operation needs them or not.
/// @param situation  of the whole group
/// @error ncclInvalidArgument  the situation contradicts itself, or hierarchy is not admitted, with
///                             the rule
Result<encHierChoices> encSelectHier(const encSituation& situation, const encAlgOptions& options);

/// "Hier algorithm selections - alg_intra_allg 5 ...": the runtime's line.
std::string encHierText(const encHierChoices& choices);

}  // namespace nccom
