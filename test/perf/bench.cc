#include "test/perf/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include "include/nccom.h"
#include "test/perf/failure.h"

namespace nccom::perf {
namespace {

constexpr int kNoRoot = -1;

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ncclRedOp_t builtIn(Operator op) {
  switch (op) {
    case Operator::Sum:
      return ncclSum;
    case Operator::Prod:
      return ncclProd;
    case Operator::Max:
      return ncclMax;
    case Operator::Min:
      return ncclMin;
    case Operator::Avg:
      return ncclAvg;
    case Operator::MulSum:
      break;  // made for each communicator
  }
  return ncclNumOps;
}

size_t spanOf(const Counts& counts) {
  return std::max(counts.send, counts.receive);
}

// A buffer holds the largest message, moved by -u elements of the largest type.
size_t bufferBytes(const Options& options) {
  constexpr size_t kLargestType = 8;
  return std::max<size_t>(options.sizes.maxBytes, 16) +
         static_cast<size_t>(options.unalign) * kLargestType;
}

}  // namespace

Result<Outcome> Bench::run() {
  TRY(allocate());
  const std::vector<Series> series = allSeries();
  constexpr uint64_t kHalves = 2;  // out of place, in place
  for (const Series& each : series) {
    planned_ += kHalves * sizesOf(shared_.options.sizes, each.type.bytes).size() *
                static_cast<uint64_t>(shared_.options.cycles);
  }
  for (const Series& each : series)
    TRY(runSeries(each));
  TRY(release());
  return outcome_;
}

std::vector<Bench::Series> Bench::allSeries() const {
  const Options& options = shared_.options;
  std::vector<TypeName> types(allTypes().begin(), allTypes().end());
  if (options.type) types = {*options.type};
  std::vector<OperatorName> ops{{Operator::Sum, "none"}};
  if (shared_.op.reduces) ops.assign(allOperators().begin(), allOperators().end());
  if (shared_.op.reduces && options.op) {
    std::erase_if(ops, [&](const OperatorName& op) { return op.op != *options.op; });
  }
  std::vector<int> roots{kNoRoot};
  if (shared_.op.rooted) {
    roots.clear();
    for (int rank = 0; rank < shared_.nRanks; rank++) {
      if (options.root == kAllRoots || options.root == rank) roots.push_back(rank);
    }
  }
  std::vector<Series> all;
  for (const TypeName& type : types) {
    for (const OperatorName& op : ops) {
      for (const int root : roots)
        all.push_back({type, op, root});
    }
  }
  return all;
}

Status Bench::use(const Member& member) {
  return did(nccomSetDevice(member.device), "nccomSetDevice");
}

Status Bench::allocate() {
  const size_t bytes = bufferBytes(shared_.options);
  for (Member& member : members_) {
    TRY(use(member));
    if (!shared_.options.nullStream) {
      TRY(did(nccomStreamCreate(&member.stream), "nccomStreamCreate"));
    }
    for (std::byte** buffer : {&member.send, &member.receive}) {
      void* memory = nullptr;
      TRY(did(ncclMemAlloc(&memory, bytes), "ncclMemAlloc"));
      *buffer = static_cast<std::byte*>(memory);
    }
  }
  return Ok{};
}

Status Bench::release() {
  for (Member& member : members_) {
    TRY(use(member));
    TRY(did(ncclMemFree(member.send), "ncclMemFree"));
    TRY(did(ncclMemFree(member.receive), "ncclMemFree"));
    if (!shared_.options.nullStream) {
      TRY(did(nccomStreamDestroy(member.stream), "nccomStreamDestroy"));
    }
  }
  return Ok{};
}

Status Bench::runSeries(const Series& series) {
  const Options& options = shared_.options;
  TRY(prepareSeries(series));
  const std::vector<size_t> sizes = sizesOf(options.sizes, series.type.bytes);
  for (int cycle = 0; options.cycles == 0 || cycle < options.cycles; cycle++) {
    for (const size_t bytes : sizes)
      TRY(runRow(series, bytes));
  }
  return finishSeries(series);
}

// Buffers get numbers of the type throughout: the timed operations shall neither meet pages that
// were never touched nor numbers that are slow to add.
Status Bench::prepareSeries(const Series& series) {
  const Options& options = shared_.options;
  const PatternKey key{.type = series.type.type,
                       .reduces = shared_.op.reduces,
                       .op = series.op.op,
                       .nRanks = shared_.nRanks,
                       .elements = kPeriod,
                       .round = 0};
  const std::shared_ptr<const Pattern> pattern = shared_.patterns.get(key);
  const size_t moved = static_cast<size_t>(options.unalign) * series.type.bytes;
  const size_t bytes = options.sizes.maxBytes / series.type.bytes * series.type.bytes;
  for (Member& member : members_) {
    member.send += moved;
    member.receive += moved;
    const Tile& input = pattern->inputs[static_cast<size_t>(member.rank)];
    fillSequence({member.send, bytes}, input, 0);
    fillSequence({member.receive, bytes}, input, 0);
    member.redOp = builtIn(series.op.op);
    if (shared_.op.reduces && series.op.op == Operator::MulSum) {
      uint64_t scalar = mulSumScalar(series.type.type, member.rank);
      TRY(did(ncclRedOpCreatePreMulSum(&member.redOp, &scalar, series.type.type,
                                       ncclScalarHostImmediate, member.comm),
              "ncclRedOpCreatePreMulSum"));
    }
  }
  return Ok{};
}

Status Bench::finishSeries(const Series& series) {
  const size_t moved = static_cast<size_t>(shared_.options.unalign) * series.type.bytes;
  for (Member& member : members_) {
    member.send -= moved;
    member.receive -= moved;
    if (shared_.op.reduces && series.op.op == Operator::MulSum) {
      TRY(did(ncclRedOpDestroy(member.redOp, member.comm), "ncclRedOpDestroy"));
    }
  }
  return Ok{};
}

Status Bench::runRow(const Series& series, size_t bytes) {
  const Counts counts =
      shared_.op.counts(bytes / series.type.bytes, series.type.bytes, shared_.nRanks);
  Row row{.bytes = spanOf(counts) * series.type.bytes,
          .count = counts.count,
          .type = series.type.name,
          .op = series.op.name,
          .root = series.root,
          .outOfPlace = {},
          .inPlace = {}};
  row.outOfPlace = TRY(runHalf({&series, counts, false}));
  row.inPlace = TRY(runHalf({&series, counts, true}));
  if (thread_ == 0) shared_.print(row);
  return Ok{};
}

// What is under way, for who waits for it.
std::string Bench::describe(const Point& point) const {
  const Series& series = *point.series;
  std::string text = std::string(shared_.op.name) + " " + series.type.name + " " + series.op.name;
  if (series.root != kNoRoot) text += " root " + std::to_string(series.root);
  text += ", " + std::to_string(spanOf(point.counts) * series.type.bytes) + " bytes, ";
  text += point.inPlace ? "in place" : "out of place";
  const uint64_t number = outcome_.halves + 1;
  if (planned_ > 0) {
    text += " (" + std::to_string(number) + " of " + std::to_string(planned_) + ")";
  }
  return text;
}

Result<Cell> Bench::runHalf(const Point& point) {
  const Options& options = shared_.options;
  const Series& series = *point.series;
  if (thread_ == 0) shared_.watch.begin(describe(point));
  Cell cell;
  const double seconds = TRY(measure(point));
  cell.seconds = seconds;
  cell.bandwidth =
      bandwidthOf(shared_.op, point.counts, series.type.bytes, shared_.nRanks, seconds);
  if (options.checks > 0 && (!point.inPlace || shared_.op.inPlace == InPlace::Checked)) {
    cell.wrong = TRY(check(point));
  }
  outcome_.halves++;
  outcome_.halvesWrong += cell.wrong.value_or(0) > 0 ? 1 : 0;
  outcome_.busBandwidths += cell.bandwidth.bus;
  return cell;
}

// Seconds of one operation, as -a wants them of all threads.
Result<double> Bench::measure(const Point& point) {
  const Options& options = shared_.options;
  for (int iteration = 0; iteration < options.warmups; iteration++) {
    TRY(enqueue(point, iteration));
  }
  TRY(wait());
  shared_.crew.barrier();

  const auto start = std::chrono::steady_clock::now();
  double inBarriers = 0;
  for (int iteration = 0; iteration < options.iterations; iteration++) {
    if (options.aggregated > 1) TRY(did(ncclGroupStart(), "ncclGroupStart"));
    for (int call = 0; call < options.aggregated; call++) {
      TRY(enqueue(point, iteration * options.aggregated + call));
    }
    if (options.aggregated > 1) TRY(did(ncclGroupEnd(), "ncclGroupEnd"));
    if (options.blocking == Blocking::No) continue;
    TRY(wait());
    if (options.blocking == Blocking::Wait) continue;
    const auto atBarrier = std::chrono::steady_clock::now();
    shared_.crew.barrier();
    if (options.blocking == Blocking::UntimedBarrier) inBarriers += secondsSince(atBarrier);
  }
  const double queued = secondsSince(start) - inBarriers;
  TRY(wait());
  const double done = secondsSince(start) - inBarriers;
  const double operations = 1.0 * options.iterations * options.aggregated;
  const double seconds = (options.cpuTime ? queued : done) / operations;
  return shared_.crew.average(seconds, options.average, thread_);
}

Status Bench::enqueue(const Point& point, int iteration) {
  const int steps = shared_.op.steps(shared_.nRanks);
  for (int step = 0; step < steps; step++)
    TRY(enqueueStep(point, iteration, step));
  return Ok{};
}

Status Bench::enqueueStep(const Point& point, int iteration, int step) {
  const Series& series = *point.series;
  const size_t typeBytes = series.type.bytes;
  const Counts& counts = point.counts;
  // Each operation uses another part of the buffers, if there is room: it shall not find in a cache
  // what the one before left there.
  const size_t bytes = spanOf(counts) * typeBytes;
  const size_t places = bytes == 0 ? 1 : shared_.options.sizes.maxBytes / bytes;
  const size_t shift = bytes * (static_cast<size_t>(iteration) % places);

  const bool grouped = members_.size() > 1;
  if (grouped) TRY(did(ncclGroupStart(), "ncclGroupStart"));
  for (const Member& member : members_) {
    if (shared_.options.nullStream) TRY(use(member));
    const size_t rankBytes = static_cast<size_t>(member.rank) * typeBytes;
    std::byte* const receive = member.receive + shift;
    const Call call{
        .send = point.inPlace ? receive + counts.sendInPlace * rankBytes : member.send + shift,
        .receive = point.inPlace ? receive + counts.receiveInPlace * rankBytes : receive,
        .count = counts.count,
        .type = series.type.type,
        .typeBytes = typeBytes,
        .op = member.redOp,
        .root = series.root,
        .rank = member.rank,
        .nRanks = shared_.nRanks,
        .comm = member.comm,
        .stream = member.stream};
    TRY(did(shared_.op.enqueue(call, step), shared_.op.name));
  }
  if (grouped) TRY(did(ncclGroupEnd(), shared_.op.name));
  return Ok{};
}

Status Bench::wait() {
  for (const Member& member : members_) {
    if (shared_.options.nullStream) TRY(use(member));
    TRY(did(nccomStreamSynchronize(member.stream), shared_.op.name));
  }
  return Ok{};
}

}  // namespace nccom::perf
