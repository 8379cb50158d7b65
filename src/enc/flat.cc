#include "enc/flat.h"

#include <numeric>

#include "enc/builder.h"
#include "enc/layout.h"
#include "misc/datatype.h"

namespace nccom {

encStage encFlatStage(const enc_comm_info& info, const encTask& task) {
  const encLayout layout = encLayout::of(info);
  const encReduction reduction = encReductionOf(task, info.rank_n);
  encStage stage;
  stage.op = task.op;
  stage.level = info.situation.node_n > 1 ? encLevel::Inter : encLevel::Intra;
  stage.ranks.resize(info.rank_n);
  std::iota(stage.ranks.begin(), stage.ranks.end(), 0);
  stage.self = info.rank;
  stage.root = task.root;
  stage.elementBytes = ncclTypeSize(task.type);
  stage.partBytes = task.count * stage.elementBytes;
  const bool parts =
      task.op == encOp::AllGather || task.op == encOp::ReduceScatter || task.op == encOp::AlltoAll;
  stage.messageBytes = stage.partBytes * static_cast<uint64_t>(parts ? info.rank_n : 1);
  stage.input.buffer = encBuffer::Input;
  stage.output.buffer = encBuffer::Output;
  stage.scaleInputs = reduction.scaleInputs;
  stage.divide = reduction.divideSum;
  stage.workBegin = layout.workBegin();
  stage.workBytes = layout.workBytes;
  return stage;
}

}  // namespace nccom
