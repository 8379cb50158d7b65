#include "enc/alg_stages.h"

#include <algorithm>
#include <cinttypes>

#include "enc/alg_select.h"
#include "enc/alg_table.h"

namespace nccom {
namespace {

using Alg = enc_alg_type;

bool isIntra(encHierSlot slot) {
  return slot == encHierSlot::IntraAllGather || slot == encHierSlot::IntraReduceScatter;
}

enc_op_type opOf(encHierSlot slot) {
  switch (slot) {
    case encHierSlot::IntraAllGather:
    case encHierSlot::InterAllGather:
      return enc_op_type::AllGather;
    case encHierSlot::IntraReduceScatter:
    case encHierSlot::InterReduceScatter:
      return enc_op_type::ReduceScatter;
    case encHierSlot::InterAllReduce:
      break;
  }
  return enc_op_type::AllReduce;
}

/// The verdict on a candidate; "mesh" is the best of its family.
const encVerdict& verdictOn(Alg candidate, const encAlgSelection& selection) {
  if (candidate == Alg::Mesh && encIsMesh(selection.alg)) {
    return selection.verdicts[static_cast<size_t>(selection.alg)];
  }
  return selection.verdicts[static_cast<size_t>(candidate)];
}

bool isPossible(const encVerdict& verdict) {
  return verdict.kind == encVerdictKind::Chosen || verdict.kind == encVerdictKind::Outranked;
}

/// With one algorithm and no other but the ring allowed: what it alone would do.
Result<encAlgSelection> selectAmong(Alg candidate, const encSituation& stage,
                                    const encAlgOptions& options) {
  encAlgOptions alone = options;
  alone.forced.reset();
  const auto bit = [&](Alg alg) { return uint64_t{1} << algBit(alg, stage.scope()); };
  uint64_t kept = bit(Alg::Ring) | bit(candidate);
  for (const encAlgRow& row : encAlgTable()) {
    const bool isNeeded = candidate == Alg::IntraRdh && row.alg == Alg::Mesh;
    if (isNeeded || (candidate == Alg::Mesh && encIsMesh(row.alg))) kept |= bit(row.alg);
  }
  alone.allowed = (options.allowed & kept) | bit(Alg::Ring);
  return encSelectAlg(stage, alone);
}

Result<encHierChoice> chooseSlot(encHierSlot slot, const encSituation& situation,
                                 const encAlgOptions& options) {
  const encSituation stage = encHierStage(situation, slot);
  encHierChoice choice;
  for (const Alg candidate : encHierCandidates(slot)) {
    const encAlgSelection selection = TRY(selectAmong(candidate, stage, options));
    const encVerdict& verdict = verdictOn(candidate, selection);
    if (isPossible(verdict)) {
      choice.alg = verdict.alg;
      choice.subtype = selection.subtype;
      return choice;
    }
    choice.losers.push_back(std::string(encAlgName(candidate)) + " " + verdict.why);
  }
  return choice;
}

}  // namespace

const char* toText(encHierSlot slot) {
  switch (slot) {
    case encHierSlot::IntraAllGather:
      return "alg_intra_allg";
    case encHierSlot::IntraReduceScatter:
      return "alg_intra_redsct";
    case encHierSlot::InterAllReduce:
      return "alg_inter_allr";
    case encHierSlot::InterAllGather:
      return "alg_inter_allg";
    case encHierSlot::InterReduceScatter:
      return "alg_inter_redsct";
  }
  return "?";
}

std::vector<enc_alg_type> encHierCandidates(encHierSlot slot) {
  if (isIntra(slot)) return {Alg::IntraRdh, Alg::Mesh, Alg::Kangaring};
  if (slot == encHierSlot::InterAllReduce) {
    return {Alg::Mesh, Alg::InterRdh, Alg::SingleCycleRing};
  }
  return {Alg::Mesh, Alg::InterRdh};
}

std::vector<encHierSlot> encHierStages(enc_op_type op) {
  if (op == enc_op_type::AllReduce) {
    return {encHierSlot::IntraReduceScatter, encHierSlot::InterAllReduce,
            encHierSlot::IntraAllGather};
  }
  if (op == enc_op_type::ReduceScatter) {
    return {encHierSlot::IntraReduceScatter, encHierSlot::InterReduceScatter};
  }
  if (op == enc_op_type::AllGather) {
    return {encHierSlot::InterAllGather, encHierSlot::IntraAllGather};
  }
  return {};
}

encSituation encHierStage(const encSituation& situation, encHierSlot slot) {
  encSituation stage = situation;
  stage.op = opOf(slot);
  stage.src_target_pairs_id = -1;
  stage.ringBuilt = false;
  if (isIntra(slot)) {
    stage.rank_n = situation.local_rank_n;
    stage.node_n = 1;
    stage.local_rack_rank_n = std::min(situation.local_rack_rank_n, situation.local_rank_n);
    stage.enable_pod = false;
    return stage;
  }
  stage.rank_n = situation.node_n;
  stage.local_rank_n = 1;
  stage.local_rack_rank_n = situation.local_rack_rank_n / std::max(1, situation.local_rank_n);
  stage.devices = 1;
  stage.ranksPerDevice = 1;
  stage.kangaringPaths = 0;
  const auto sharers = static_cast<uint64_t>(std::max(1, situation.local_rank_n));
  stage.bytes = situation.bytes / sharers + (situation.bytes % sharers > 0 ? 1 : 0);
  return stage;
}

Result<encHierChoices> encSelectHier(const encSituation& situation, const encAlgOptions& options) {
  TRY(encCheckSituation(situation));
  if (const auto excluded = encExcludedBy(Alg::Hier, {situation, options})) {
    return fail(ncclInvalidArgument, "hier is not admitted for %s: it %s",
                encSituationText(situation).c_str(), excluded->c_str());
  }
  encHierChoices choices;
  for (int i = 0; i < kHierSlots; i++) {
    choices[i] = TRY(chooseSlot(static_cast<encHierSlot>(i), situation, options));
  }
  return choices;
}

std::string encHierText(const encHierChoices& choices) {
  std::string text = "Hier algorithm selections -";
  for (int i = 0; i < kHierSlots; i++) {
    text += std::string(" ") + toText(static_cast<encHierSlot>(i)) + " " +
            std::to_string(static_cast<int>(choices[i].alg));
  }
  return text;
}

}  // namespace nccom
