// The table of algorithms: for each the rules that admit it, the operations that it composes, and
// its place in the order of precedence. Selection walks the table, the reasons it prints are the
// table's words, and docs/algorithms.md is the table as text.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "enc/alg_limits.h"
#include "enc/alg_types.h"

namespace nccom {

/// A rule of admission.
struct encRule {
  const char* says;
  bool (*holds)(const encAlgCase&);
  std::string (*found)(const encAlgCase&);  // what there is, for the one who reads of a failure
};

struct encAlgRow {
  const char* name;  // for NCCOM_ALG; unique
  const char* what;
  std::span<const encRule* const> gate;  // all must hold; the bitmap comes before them
  encOpMask ops;
  enc_alg_type alg;
};

/// All algorithms, by value.
std::span<const encAlgRow> encAlgTable();
const encAlgRow& encAlgRowOf(enc_alg_type alg);

/// "single_cycle_ring": unique names, unlike encAlgLogName().
const char* encAlgName(enc_alg_type alg);

/// The algorithm of a name. "rdh" is the one of the scope.
/// @error ncclInvalidArgument  unknown; the message lists the known ones
Result<enc_alg_type> encAlgOf(const std::string& name, enc_comm_type scope);

/// A kind of machine on which meshes are known to work, and what of groups there. The runtime has
/// such arms too, by family, LNC and ranks of a node; only Inferentia2's numbers, those of switched
/// racks and the most nodes are its own, the others are the sizes that platforms can be cut into.
struct encMeshArm {
  const char* machine;
  bool (*is)(const encSituation&);
  const char* says;
  bool (*accepts)(const encAlgCase&);
};
std::span<const encMeshArm> encMeshArms();

/// Why an algorithm is not admitted: the first rule that does not hold, and what was found in its
/// place. Nothing: it is admitted. Looks at machine, group and switches, not at the operation.
std::optional<std::string> encExcludedBy(enc_alg_type alg, const encAlgCase& c);

inline bool encIsMesh(enc_alg_type alg) {
  return encPattern(alg) == enc_pattern_t::Mesh && alg != enc_alg_type::IntraRdh;
}

}  // namespace nccom
