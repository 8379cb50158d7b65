// Which algorithm an operation gets in a situation, and for each of the others the rule that kept
// it out. The runtime's procedure: all predicates are evaluated, then the first possible algorithm
// in a fixed order is taken.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "enc/alg_limits.h"
#include "enc/alg_situation.h"
#include "enc/alg_types.h"
#include "misc/result.h"

namespace nccom {

/// How far an algorithm came.
enum class encVerdictKind : uint8_t {
  NotAdmitted,  // machine, group or switches exclude it
  CannotPost,   // it does not compose this operation, or is not chosen for this size
  Outranked,    // possible, but another comes before it
  NotForced,    // NCCOM_ALG names another
  Chosen,
};
const char* toText(encVerdictKind kind);

struct encVerdict {
  enc_alg_type alg = enc_alg_type::Invalid;
  encVerdictKind kind = encVerdictKind::NotAdmitted;
  std::string why;
  bool operator==(const encVerdict&) const = default;

  bool isAdmitted() const { return kind != encVerdictKind::NotAdmitted; }
};

/// The runtime's six predicates (enc_can_post_...), of the operation at hand.
struct encPredicates {
  bool mesh = false, kangaring = false, singleCycle = false;
  bool intraRdh = false, interRdh = false, hierarchical = false;
  bool operator==(const encPredicates&) const = default;
};

/// A step of the order in which they are looked at.
struct encPrecedence {
  enc_alg_type alg;  // Mesh stands for all of its family
  const char* says;
  bool (*holds)(const encPredicates&, const encSituation&);
};
std::span<const encPrecedence> encPrecedenceTable();

struct encAlgSelection {
  enc_alg_type alg = enc_alg_type::Invalid;
  std::string subtype;  // whose window took the size; empty: windows do not matter
  std::string why;
  encPredicates possible;
  std::array<encVerdict, kEncAlgs> verdicts;  // by value of the algorithm
  enc_comm_type scope = enc_comm_type::Intra;
  enc_alg_mesh_type mesh = enc_alg_mesh_type::Invalid;  // of the mesh, if one is admitted
  bool hybridRing = false;                              // a Ring over devices, on 4 channels
  bool operator==(const encAlgSelection&) const = default;
};

/// A forced algorithm (NCCOM_ALG) is taken whatever the size, if it is admitted and composes the
/// operation.
///
/// @error ncclInvalidArgument  the situation contradicts itself; an operation that nothing
///                             composes, AlltoAll without a mesh among them; a forced algorithm
///                             that is not admitted or does not compose the operation, with the
///                             rule
Result<encAlgSelection> encSelectAlg(const encSituation& situation, const encAlgOptions& options);

/// For each algorithm why it is not admitted; nothing: it is. Independent of the operation: what
/// a communicator builds.
std::array<std::optional<std::string>, kEncAlgs> encAdmission(const encSituation& situation,
                                                              const encAlgOptions& options);

/// The selection for people: the situation, the choice, and a line an algorithm.
std::string encSelectionText(const encSituation& situation, const encAlgSelection& selection);

}  // namespace nccom
