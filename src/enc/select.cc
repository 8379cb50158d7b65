#include "enc/select.h"

#include <utility>

#include "enc/alg_table.h"
#include "enc/builder.h"
#include "enc/direct.h"
#include "enc/flat.h"
#include "enc/hier.h"
#include "enc/p2p.h"
#include "enc/permute.h"
#include "enc/ring.h"
#include "enc/situation_of.h"
#include "enc/stage_compose.h"
#include "enc/staged.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

/// One rank: its INPUT is its OUTPUT, but for the operator's scaling.
Result<encProgram> composeCopy(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "copy");
  const uint64_t bytes = task.count * ncclTypeSize(task.type);
  if (bytes > 0) {
    const encReduction reduction = encReductionOf(task, info.rank_n);
    encDesc copy = encTransfer(encStep::Copy, {info.rank, encBuffer::Input, 0, 0, 0},
                               {info.rank, encBuffer::Output, 0, 0, 0}, bytes);
    copy.scaledSources = reduction.scaleInputs ? 1 : 0;
    copy.divide = reduction.divideSum;
    builder.append(builder.addQueue(0), std::move(copy));
  }
  return std::move(builder).finish();
}

encAlgorithm ours(const encTask& task) {
  const bool chain = task.op == encOp::Broadcast || task.op == encOp::Reduce;
  const bool message =
      task.op == encOp::SendRecv || task.op == encOp::Gather || task.op == encOp::Scatter;
  return chain || !message ? encAlgorithmOf(enc_alg_type::Ring) : encAlgorithm::P2p;
}

bool isPermute(encOp op) {
  return op == encOp::Permute || op == encOp::PermuteReduce;
}

bool isTabled(encOp op) {
  return op == encOp::AllGather || op == encOp::AllReduce || op == encOp::ReduceScatter ||
         op == encOp::AlltoAll;
}

/// An algorithm that does not compose an operation cannot be forced upon it.
Status checkForced(const enc_comm_info& info, const encTask& task) {
  const std::optional<enc_alg_type> forced = info.options.forced;
  const bool chain = task.op == encOp::Broadcast || task.op == encOp::Reduce;
  if (!chain || !forced || *forced == enc_alg_type::Ring) return Ok{};
  return fail(ncclInvalidArgument, "%s: NCCOM_ALG names %s, which composes %s; want ring",
              encOpName(task.op), encAlgName(*forced),
              opMaskText(encAlgRowOf(*forced).ops).c_str());
}

/// Every rank has a scalar of its own, and many algorithms read what ranks put in where it lies.
bool scalesByRank(const encTask& task) {
  return task.redOp == kRedOpPreMulSum &&
         (task.op == encOp::AllReduce || task.op == encOp::ReduceScatter);
}

Result<encChoice> selectTabled(const enc_comm_info& info, const encTask& task) {
  const encSituation situation = TRY(encSituationOf(info, task));
  const bool isMeshless =
      task.op == encOp::AlltoAll && !info.options.forced &&
      encAdmission(situation, info.options)[static_cast<size_t>(enc_alg_type::Mesh)].has_value();
  if (isMeshless) {
    return encChoice{
        encAlgorithm::P2p, "AlltoAll: no mesh is admitted, and every part has one reader", {}};
  }
  encAlgSelection selection = TRY(encSelectAlg(situation, info.options));
  encChoice choice{encAlgorithmOf(selection.alg), selection.why, {}};
  choice.selection = std::move(selection);
  return choice;
}

/// Ranks multiply what they put in, and pass that on.
bool multipliesOwn(enc_alg_type alg) {
  return alg == enc_alg_type::Ring || alg == enc_alg_type::SingleCycleRing ||
         alg == enc_alg_type::InterRdh;
}

Result<encChoice> selectPreMulSum(const enc_comm_info& info, const encTask& task) {
  const std::optional<enc_alg_type> forced = info.options.forced;
  if (forced && !multipliesOwn(*forced)) {
    return fail(ncclInvalidArgument,
                "%s: NCCOM_ALG names %s, which reads the inputs of other ranks; PreMulSum "
                "multiplies by a scalar of each rank: want ring, single_cycle_ring or inter_rdh",
                encOpName(task.op), encAlgName(*forced));
  }
  if (forced && !info.peers.empty()) return selectTabled(info, task);
  return encChoice{encAlgorithmOf(enc_alg_type::Ring),
                   std::string(encOpName(task.op)) +
                       ": PreMulSum multiplies by a scalar of each rank, as rings do",
                   {}};
}

/// Where ranks are no farther from each other than memory is.
bool takesDirect(const enc_comm_info& info, const encTask& task) {
  const bool onHost = !info.peers.empty() && info.situation.isHost();
  const encAlgOptions& options = info.options;
  const bool isNamed = options.forced || options.allowed != kAllAlgTypes;
  return onHost && !isNamed && encCheckDirect(info, task).ok();
}

}  // namespace

const char* encAlgorithmName(encAlgorithm algorithm) {
  switch (algorithm) {
    case encAlgorithm::P2p:
      return "p2p";
    case encAlgorithm::Copy:
      return "copy";
    case encAlgorithm::Permute:
      return "permute";
    case encAlgorithm::Direct:
      return "direct";
    case encAlgorithm::Staged:
      return "staged";
    default:
      return encAlgName(encAlgTypeOf(algorithm));
  }
}

Result<encChoice> encSelect(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  TRY(checkForced(info, task));
  const std::string name = encOpName(task.op);
  if (task.op == encOp::SendRecv) {
    return encChoice{encAlgorithm::P2p, name + ": messages go point to point", {}};
  }
  if (isPermute(task.op)) {
    return encChoice{encAlgorithm::Permute, name + ": every rank has one source at most", {}};
  }
  if (info.rank_n == 1) return encChoice{encAlgorithm::Copy, name + ": there is one rank", {}};
  // Of Gather and Scatter there is one way.
  const bool isShared = info.options.shared != encSharedWay::None && task.op != encOp::Gather &&
                        task.op != encOp::Scatter;
  if (isShared && info.options.shared == encSharedWay::Direct) TRY(encCheckDirect(info, task));
  if (isShared && info.options.shared == encSharedWay::Staged) {
    TRY(encCheckShared("staged", info, task));
    return encChoice{encAlgorithm::Staged,
                     name + ": all ranks share memory, and give each other copies to read",
                     {}};
  }
  if (isShared || takesDirect(info, task)) {
    return encChoice{encAlgorithm::Direct,
                     name +
                         ": all ranks share memory: every input is read, and every output "
                         "written, once",
                     {}};
  }
  if (scalesByRank(task)) return selectPreMulSum(info, task);
  if (isTabled(task.op) && !info.peers.empty()) return selectTabled(info, task);
  if (task.op == encOp::AlltoAll || ours(task) == encAlgorithm::P2p) {
    return encChoice{
        encAlgorithm::P2p, name + ": every part has one reader, and goes there directly", {}};
  }
  return encChoice{ours(task), name + ": the ring serves every size and number of ranks", {}};
}

Result<encProgram> encCompose(const enc_comm_info& info, const encTask& task) {
  const encChoice choice = TRY(encSelect(info, task));
  if (choice.algorithm == encAlgorithm::Copy) return composeCopy(info, task);
  if (choice.algorithm == encAlgorithm::Permute) return encComposePermute(info, task);
  if (choice.algorithm == encAlgorithm::Direct) return encComposeDirect(info, task);
  if (choice.algorithm == encAlgorithm::Staged) return encComposeStaged(info, task);
  if (choice.algorithm == encAlgorithm::P2p) {
    return task.op == encOp::SendRecv ? encComposeSendRecv(info, task)
                                      : encComposeP2pCollective(info, task);
  }
  const enc_alg_type alg = encAlgTypeOf(choice.algorithm);
  if (alg == enc_alg_type::Ring) return encComposeRing(info, task);
  if (alg == enc_alg_type::Hier) return encComposeHier(info, task);
  encBuilder builder(info, task, encAlgName(alg));
  TRY(encStageCompose(builder, encFlatStage(info, task), alg, encLevelsOf(info)));
  return std::move(builder).finish();
}

}  // namespace nccom
