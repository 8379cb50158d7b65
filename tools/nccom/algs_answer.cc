#include "tools/nccom/algs_answer.h"

#include <algorithm>
#include <utility>

#include "enc/alg_limits.h"
#include "enc/alg_table.h"
#include "enc/situation_of.h"

namespace nccom {
namespace {

constexpr uint64_t kFirstSize = kKiB;
constexpr uint64_t kLastSize = 1024 * kMiB;

/// Verdicts where the table was not walked, because nothing in it composes the operation here, or
/// because the direct way comes before it.
std::vector<encVerdict> admissionVerdicts(const encSituation& situation,
                                          const encAlgOptions& options, bool isShared) {
  const auto excluded = encAdmission(situation, options);
  std::vector<encVerdict> verdicts;
  for (int i = 0; i < kEncAlgs; i++) {
    const auto alg = static_cast<enc_alg_type>(i);
    encVerdict verdict{alg, encVerdictKind::CannotPost,
                       "composes " + opMaskText(encAlgRowOf(alg).ops)};
    if (isShared && (encAlgRowOf(alg).ops & opMask(situation.op)) != 0) {
      verdict = {alg, encVerdictKind::Outranked,
                 options.shared != encSharedWay::None
                     ? "NCCOM_ALG names another"
                     : "where ranks share memory and are on no device, direct comes before it"};
    }
    if (excluded[i]) verdict = {alg, encVerdictKind::NotAdmitted, *excluded[i]};
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

void addSelection(AlgsAnswer& answer, const encAlgSelection& selection) {
  answer.algorithm = encAlgName(selection.alg);
  answer.value = static_cast<int>(selection.alg);
  answer.subtype = selection.subtype;
  answer.why = selection.why;
  answer.hybridRing = selection.hybridRing;
  answer.verdicts.assign(selection.verdicts.begin(), selection.verdicts.end());
  answer.possible = selection.possible;
}

/// Operations of NCCL's: as communicators choose.
Status choose(const ScheduleCase& asked, uint64_t bytes, AlgsAnswer& answer) {
  encTask task;
  task.op = *asked.op.op;
  if (asked.op.isAlongPairs()) task.pairs = asked.group.pairs;
  task.count = countOf(asked.op, bytes, task.type, asked.info.rank_n);
  const encChoice choice = TRY(encSelect(asked.info, task));
  if (asked.op.type != enc_op_type::Invalid) {
    answer.situation = TRY(encSituationOf(asked.info, task));
  } else {
    answer.situation.bytes = bytes;
  }
  if (choice.selection) {
    addSelection(answer, *choice.selection);
    return Ok{};
  }
  answer.algorithm = encAlgorithmName(choice.algorithm);
  const enc_alg_type alg = encAlgTypeOf(choice.algorithm);
  if (alg != enc_alg_type::Invalid) answer.value = static_cast<int>(alg);
  answer.why = choice.why;
  const bool isShared =
      choice.algorithm == encAlgorithm::Direct || choice.algorithm == encAlgorithm::Staged;
  const bool isTabled = isShared && asked.op.type != enc_op_type::Invalid;
  if ((task.op == encOp::AlltoAll && asked.info.rank_n > 1) || isTabled) {
    answer.verdicts = admissionVerdicts(answer.situation, asked.info.options, isShared);
  }
  return Ok{};
}

Result<AlgsAnswer> answerUnnamed(const ScheduleCase& asked, uint64_t bytes) {
  AlgsAnswer answer;
  answer.situation = asked.info.situation;
  if (asked.op.op) {
    TRY(choose(asked, bytes, answer));
  } else {
    if (asked.info.options.shared != encSharedWay::None) {
      return fail(ncclInvalidArgument,
                  "%s: neither direct nor staged composes it: it is of the runtime's table alone",
                  asked.op.name.c_str());
    }
    answer.situation.op = asked.op.type;
    answer.situation.bytes = bytes;
    addSelection(answer, TRY(encSelectAlg(answer.situation, asked.info.options)));
  }
  if (answer.value == static_cast<int>(enc_alg_type::Hier)) {
    answer.hierarchy = TRY(encSelectHier(answer.situation, asked.info.options));
  }
  return answer;
}

bool isSameWinner(const AlgsAnswer& a, const AlgsAnswer& b) {
  const auto legs = [](const AlgsAnswer& answer) {
    std::vector<std::pair<enc_alg_type, std::string>> chosen;
    if (!answer.hierarchy) return chosen;
    for (const encHierSlot slot : encHierStages(answer.situation.op)) {
      const encHierChoice& choice = (*answer.hierarchy)[static_cast<size_t>(slot)];
      chosen.emplace_back(choice.alg, choice.subtype);
    }
    return chosen;
  };
  return a.algorithm == b.algorithm && a.subtype == b.subtype && legs(a) == legs(b);
}

/// The first size above `low` whose winner is not low's, knowing that high's is not.
Result<uint64_t> changeBetween(const ScheduleCase& asked, uint64_t low, uint64_t high,
                               const AlgsAnswer& before) {
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    const AlgsAnswer answer = TRY(answerAlgs(asked, middle));
    (isSameWinner(answer, before) ? low : high) = middle;
  }
  return high;
}

}  // namespace

Result<AlgsAnswer> answerAlgs(const ScheduleCase& asked, uint64_t bytes) {
  Result<AlgsAnswer> answer = answerUnnamed(asked, bytes);
  if (answer.ok() || asked.group.name.empty()) return answer;
  return fail(answer.error().code, "%s: %s", asked.group.name.c_str(),
              answer.error().message.c_str());
}

Result<AlgsSweep> sweepAlgs(const ScheduleCase& asked) {
  AlgsSweep sweep;
  for (uint64_t bytes = kFirstSize; bytes <= kLastSize; bytes *= 2) {
    AlgsAnswer answer = TRY(answerAlgs(asked, bytes));
    uint64_t known = bytes / 2;
    while (!sweep.regimes.empty() && !isSameWinner(sweep.regimes.back().answer, answer)) {
      // A winner may change more than once on the way.
      const uint64_t change = TRY(changeBetween(asked, known, bytes, sweep.regimes.back().answer));
      sweep.regimes.push_back({change, TRY(answerAlgs(asked, change))});
      known = change;
    }
    if (sweep.regimes.empty()) sweep.regimes.push_back({bytes, answer});
    sweep.sizes.push_back(std::move(answer));
  }
  return sweep;
}

}  // namespace nccom
