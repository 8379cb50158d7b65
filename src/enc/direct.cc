#include "enc/direct.h"

#include <algorithm>
#include <utility>

#include "enc/builder.h"
#include "enc/flat.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

constexpr uint64_t kLine = 64;
// Ranks, by choice: what each reads of all grows with the square.
constexpr int kMostShort = 16;

// Ranks that tell all others that they are through; more ranks go in rounds, each of which lets
// everybody run once where ranks share cores. By measurement of 4 and 8 ranks on 2 cores.
constexpr int kMostAtOnce = 8;

bool isComposed(encOp op) {
  return op == encOp::AllReduce || op == encOp::Reduce || op == encOp::Broadcast ||
         op == encOp::ReduceScatter || op == encOp::AllGather || op == encOp::AlltoAll;
}

class Direct {
 public:
  Direct(encBuilder& builder, const encStage& stage)
      : builder_(builder), stage_(stage), queue_(builder.mainQueue(0)) {}

  void compose();
  void composeShort();

 private:
  encPart slice() const;
  void fold(uint64_t at, const encPart& part, const std::vector<int>& to, uint64_t toAt);
  void take(int from, uint64_t at, const encPart& to);
  void exchange();
  void meet();
  uint32_t semaphore(int number) const;
  void tell(int distance, int number);
  void hear(int distance, int number);

  encBuilder& builder_;
  const encStage& stage_;
  const size_t queue_;
};

/// Own share of a message: lines are not shared between slices, whose writers differ.
encPart Direct::slice() const {
  const auto n = static_cast<uint64_t>(stage_.n());
  // Whole elements: their sizes divide a line.
  const uint64_t share = ((stage_.messageBytes + n - 1) / n + kLine - 1) / kLine * kLine;
  const uint64_t begin = std::min(stage_.messageBytes, static_cast<uint64_t>(stage_.self) * share);
  return {begin, std::min(share, stage_.messageBytes - begin)};
}

/// What all INPUTs have from `at` on. Sums of more sources than a transfer has go on in the first
/// destination, which may share its INPUT's memory: that is read first.
void Direct::fold(uint64_t at, const encPart& part, const std::vector<int>& to, uint64_t toAt) {
  const int first = stage_.n() > kMaxSources ? to[0] : 0;
  encMove move{.step = encStep::RecvReduceCopy,
               .bytes = part.bytes,
               .scaleAll = stage_.scaleInputs,
               .divide = stage_.divide};
  for (int i = 0; i < stage_.n(); i++)
    move.sources.push_back(stage_.in((first + i) % stage_.n(), at));
  for (const int member : to)
    move.destinations.push_back(stage_.out(member, toAt));
  builder_.transfer(queue_, move);
}

void Direct::exchange() {
  std::vector<int> all = stage_.ranks;
  const int self = stage_.self;
  const auto part = [&](int member) { return stage_.part(member); };
  switch (stage_.op) {
    case encOp::AllReduce:
      fold(slice().begin, slice(), all, slice().begin);
      break;
    case encOp::Reduce:
      fold(slice().begin, slice(), {stage_.root}, slice().begin);
      break;
    case encOp::ReduceScatter:
      fold(part(self).begin, part(self), {self}, 0);
      break;
    case encOp::Broadcast:
    case encOp::AllGather: {
      const bool gathers = stage_.op == encOp::AllGather;
      const encPart own = gathers ? part(self) : slice();
      encMove move{.step = encStep::Send, .bytes = own.bytes};
      move.sources = {stage_.in(gathers ? self : stage_.root, gathers ? 0 : own.begin)};
      for (const int member : all)
        move.destinations.push_back(stage_.out(member, own.begin));
      builder_.transfer(queue_, move);
      break;
    }
    default:
      // Ourselves first, then downstream: at any time ranks read from different owners.
      for (int distance = 0; distance < stage_.n(); distance++) {
        const int from = (self + distance) % stage_.n();
        take(from, part(self).begin, part(from));
      }
      break;
  }
}

/// All ranks have finished with each other's buffers.
void Direct::meet() {
  const int n = stage_.n();
  if (n <= kMostAtOnce) {
    for (int distance = 1; distance < n; distance++)
      tell(distance, distance - 1);
    for (int distance = 1; distance < n; distance++)
      hear(distance, distance - 1);
    return;
  }
  for (int round = 0; 1 << round < n; round++) {
    tell(1 << round, round);
    hear(1 << round, round);
  }
}

uint32_t Direct::semaphore(int number) const {
  return builder_.layout().directSemaphore(static_cast<uint32_t>(number));
}

void Direct::tell(int distance, int number) {
  const int to = stage_.ranks[(stage_.self + distance) % stage_.n()];
  builder_.append(queue_, encInc(encStep::Sync, to, semaphore(number)));
}

void Direct::hear(int distance, int number) {
  const int from = stage_.ranks[(stage_.self + stage_.n() - distance) % stage_.n()];
  builder_.expect(semaphore(number));
  builder_.wait(queue_, encStep::Sync, from, semaphore(number));
}

/// Every rank makes all of its OUTPUT, from copies of the others' INPUTs that need no goodbye.
void Direct::composeShort() {
  const int self = stage_.self;
  const bool root = self == stage_.root, reduces = stage_.op == encOp::Reduce;
  if (stage_.op != encOp::Broadcast || root) builder_.peersReadInputByValue();
  if (reduces && !root) return;
  switch (stage_.op) {
    case encOp::AllReduce:
    case encOp::Reduce:
      fold(0, {0, stage_.messageBytes}, {self}, 0);
      break;
    case encOp::ReduceScatter:
      fold(stage_.part(self).begin, stage_.part(self), {self}, 0);
      break;
    case encOp::Broadcast:
      take(stage_.root, 0, {0, stage_.messageBytes});
      break;
    default:
      for (int distance = 0; distance < stage_.n(); distance++) {
        const int from = (self + distance) % stage_.n();
        const bool gathers = stage_.op == encOp::AllGather;
        take(from, gathers ? 0 : stage_.part(self).begin, stage_.part(from));
      }
      break;
  }
}

/// Bytes of a member's INPUT from `at` on to this part of our OUTPUT.
void Direct::take(int from, uint64_t at, const encPart& to) {
  builder_.transfer(queue_, {.step = from == stage_.self ? encStep::Copy : encStep::Pull,
                             .sources = {stage_.in(from, at)},
                             .destinations = {stage_.out(stage_.self, to.begin)},
                             .bytes = to.bytes});
}

void Direct::compose() {
  const bool sliced = stage_.op == encOp::AllReduce || stage_.op == encOp::Reduce;
  const bool root = stage_.self == stage_.root;
  const encOp op = stage_.op;
  if (op == encOp::Broadcast ? root : op != encOp::AllGather) builder_.peersReadInputs();
  if (op == encOp::Reduce ? root : (sliced || op == encOp::Broadcast || op == encOp::AllGather)) {
    builder_.peersWriteOutputs();
  }
  exchange();
  meet();
}

}  // namespace

bool encDirectIsShort(const encTask& task, int nRanks) {
  const bool parts = task.op == encOp::ReduceScatter || task.op == encOp::AlltoAll;
  const uint64_t input =
      task.count * ncclTypeSize(task.type) * static_cast<uint64_t>(parts ? nRanks : 1);
  return input <= kMaxValueBytes && nRanks <= kMostShort;
}

Status encCheckShared(const char* algorithm, const enc_comm_info& info, const encTask& task) {
  if (!isComposed(task.op)) {
    return fail(ncclInvalidArgument,
                "%s: %s: want AllReduce, Reduce, Broadcast, ReduceScatter, AllGather or AlltoAll",
                algorithm, encOpName(task.op));
  }
  for (int rank = 1; rank < info.rank_n; rank++) {
    if (info.sameNode(0, rank)) continue;
    return fail(ncclInvalidArgument,
                "%s: rank %d shares no memory with rank 0: want a group that does", algorithm,
                rank);
  }
  return Ok{};
}

Status encCheckDirect(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckShared("direct", info, task));
  if (task.redOp == kRedOpPreMulSum && encReductionOf(task, info.rank_n).scaleInputs) {
    return fail(ncclInvalidArgument,
                "direct: %s: PreMulSum multiplies by a scalar of each rank, but ranks read the "
                "inputs of others: want ring or staged",
                encOpName(task.op));
  }
  return Ok{};
}

Result<encProgram> encComposeDirect(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  TRY(encCheckDirect(info, task));
  encBuilder builder(info, task, "direct");
  const encStage stage = encFlatStage(info, task);
  if (stage.messageBytes == 0) return std::move(builder).finish();
  Direct direct(builder, stage);
  if (encDirectIsShort(task, info.rank_n)) {
    direct.composeShort();
  } else {
    direct.compose();
  }
  return std::move(builder).finish();
}

}  // namespace nccom
