// Which algorithm an operation gets, as nccom algs shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enc/alg_stages.h"
#include "enc/select.h"
#include "tools/nccom/schedule_case.h"
#include "tools/nccom/topo_json.h"

namespace nccom {

struct AlgsAnswer {
  encSituation situation;    // with the operation, and the size that was looked at
  std::string algorithm;     // the winner's unique name
  int value = -1;            // of the winner's enc_alg_type; -1: it is none of the runtime's
  std::string subtype, why;  // of the winner
  bool hybridRing = false;   // of a ring
  std::vector<encVerdict> verdicts;  // of all algorithms; empty: the table was not asked
  std::optional<encPredicates> possible;
  std::optional<encHierChoices> hierarchy;  // if hier has won
};

/// @param bytes  of the longer side; rounded up to whole bytes on every rank
/// @error ncclInvalidArgument  as encSelect, encSelectAlg; names the group
Result<AlgsAnswer> answerAlgs(const ScheduleCase& asked, uint64_t bytes);

/// "intra_rdh (rdh), mesh (t4), intra_rdh (rdh)": the stages in the order in which they run.
std::string stagesText(enc_op_type op, const encHierChoices& choices);

std::string algsText(const ScheduleCase& asked, const AlgsAnswer& answer);
Json algsJson(const ScheduleCase& asked, const AlgsAnswer& answer);

/// Sizes from `first` on for which one algorithm, and subtype, wins: up to the next regime's first.
struct AlgsRegime {
  uint64_t first = 0;
  AlgsAnswer answer;  // of `first`
};

/// A regime begins at `minBytes`, and where the winner changes. Changes are found to the byte,
/// unless the winner of one doubling comes and goes within it.
/// @error as answerAlgs
struct AlgsSweep {
  std::vector<AlgsAnswer> sizes;  // 1 KiB, 2 KiB .. 1 GiB
  std::vector<AlgsRegime> regimes;
};
Result<AlgsSweep> sweepAlgs(const ScheduleCase& asked);

std::string sweepText(const ScheduleCase& asked, const AlgsSweep& sweep);
Json sweepJson(const ScheduleCase& asked, const AlgsSweep& sweep);

}  // namespace nccom
