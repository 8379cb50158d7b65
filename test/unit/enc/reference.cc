#include "test/unit/enc/reference.h"

#include <cmath>
#include <cstring>
#include <map>

#include "enc/buffers.h"
#include "enc/permute.h"
#include "misc/datatype.h"

namespace nccom::test {
namespace {

/// Small values: sums are exact, and products of many ranks stay in range.
template <class T>
void fill(Bytes& buffer, ncclRedOp_t op, int rank, uint16_t index) {
  for (size_t at = 0; at + sizeof(T) <= buffer.size(); at += sizeof(T)) {
    const size_t hash = at / sizeof(T) * 7 + static_cast<size_t>(rank) * 5 + index;
    const T value = op == ncclProd ? static_cast<T>(hash % 16 == 0 ? 2 : 1)
                                   : static_cast<T>(hash % 13 + (hash / 13 + rank) % 3);
    memcpy(&buffer[at], &value, sizeof(T));
  }
}

template <class T>
T at(const Bytes& buffer, uint64_t element) {
  T value;
  memcpy(&value, &buffer[element * sizeof(T)], sizeof(T));
  return value;
}

template <class T>
T reduced(const Launch& launch, uint64_t element) {
  const encTask& task = launch.programs[0].task;
  const int op = static_cast<int>(task.redOp);
  const bool scales = op == kRedOpPreMulSum || (op == ncclAvg && ncclTypeIsFloat(task.type));
  T result{};
  for (size_t rank = 0; rank < launch.programs.size(); rank++) {
    T value = at<T>(launch.inputs[rank][0], element);
    if (scales) value = static_cast<T>(static_cast<double>(value) * launch.scales[rank]);
    if (rank == 0) {
      result = value;
    } else if (op == ncclProd) {
      result = static_cast<T>(result * value);
    } else if (op == ncclMax || op == ncclMin) {
      result = (op == ncclMax) == (value > result) ? value : result;
    } else {
      result = static_cast<T>(result + value);
    }
  }
  if (op == ncclAvg && !scales) result = static_cast<T>(result / static_cast<T>(launch.divisor));
  return result;
}

template <class T>
T expected(const Launch& launch, int rank, uint64_t element) {
  const encTask& task = launch.programs[0].task;
  const uint64_t count = task.count;
  const auto mine = static_cast<uint64_t>(rank) * count;
  switch (task.op) {
    case encOp::AllReduce:
    case encOp::Reduce:
      return reduced<T>(launch, element);
    case encOp::ReduceScatter:
      return reduced<T>(launch, mine + element);
    case encOp::AllGather:
    case encOp::Gather:
      return at<T>(launch.inputs[element / count][0], element % count);
    case encOp::AlltoAll:
      return at<T>(launch.inputs[element / count][0], mine + element % count);
    case encOp::Broadcast:
      return at<T>(launch.inputs[task.root][0], element);
    case encOp::Scatter:
      return at<T>(launch.inputs[task.root][0], mine + element);
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return {};
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b));
}

template <class T>
std::string compareRank(const Launch& before, const Launch& after, int rank) {
  const encTask& task = before.programs[rank].task;
  const uint64_t bytes =
      encBufferBytes(task, rank, before.programs[rank].nRanks, encBuffer::Output, 0);
  int64_t shift = 0;
  const bool shared =
      before.inPlace && encInPlace(task, rank, &shift) && !before.inputs[rank][0].empty();
  const uint64_t first = shared && shift > 0 ? static_cast<uint64_t>(shift) / sizeof(T) : 0;
  for (uint64_t i = 0; i < bytes / sizeof(T); i++) {
    const T found = at<T>(after.outputs[rank][0], first + i), wanted = expected<T>(before, rank, i);
    if (close(static_cast<double>(found), static_cast<double>(wanted))) continue;
    return "rank " + std::to_string(rank) + " element " + std::to_string(i) + " is " +
           std::to_string(found) + ": want " + std::to_string(wanted);
  }
  return "";
}

std::string compareMessages(const Launch& before, const Launch& after, int rank) {
  std::map<int, size_t> received;
  for (const encMessage& recv : before.programs[rank].task.recvs) {
    size_t k = received[recv.peer]++;
    for (const encMessage& send : before.programs[recv.peer].task.sends) {
      if (send.peer != rank || k-- > 0) continue;
      if (after.outputs[rank][recv.index] != before.inputs[recv.peer][send.index]) {
        return "rank " + std::to_string(rank) + " receive " + std::to_string(recv.index) +
               " has not what rank " + std::to_string(recv.peer) + " sent";
      }
    }
  }
  return "";
}

/// Without a source, OUTPUT stays as it was.
template <class T>
std::string comparePermute(const World& world, const Launch& before, const Launch& after,
                           int rank) {
  const encTask& task = before.programs[rank].task;
  const auto source = encPermuteEndsOf(world.info(rank), task, rank).source;
  if (!source) {
    return after.outputs[rank] == before.outputs[rank]
               ? ""
               : "rank " + std::to_string(rank) + " is no target, and its output has changed";
  }
  Launch two;
  two.programs = {before.programs[*source], before.programs[rank]};
  two.inputs = {before.inputs[*source], before.inputs[rank]};
  two.scales = {before.scales[*source], before.scales[rank]};
  for (uint64_t i = 0; i < task.count; i++) {
    const T wanted = task.op == encOp::Permute ? at<T>(two.inputs[0][0], i) : reduced<T>(two, i);
    const T found = at<T>(after.outputs[rank][0], i);
    if (close(static_cast<double>(found), static_cast<double>(wanted))) continue;
    return "rank " + std::to_string(rank) + " element " + std::to_string(i) + " is " +
           std::to_string(found) + ": want " + std::to_string(wanted);
  }
  return "";
}

template <class F>
auto withType(ncclDataType_t type, F&& call) {
  switch (type) {
    case ncclUint8:
      return call(uint8_t{});
    case ncclInt32:
      return call(int32_t{});
    case ncclInt64:
      return call(int64_t{});
    case ncclFloat32:
      return call(float{});
    case ncclFloat64:
      return call(double{});
    default:
      return call(int8_t{});
  }
}

std::vector<Bytes> buffers(const encProgram& program, encBuffer which) {
  const encTask& task = program.task;
  const size_t count = task.op != encOp::SendRecv  ? 1
                       : which == encBuffer::Input ? task.sends.size()
                                                   : task.recvs.size();
  std::vector<Bytes> result;
  for (uint16_t index = 0; index < count; index++) {
    result.emplace_back(encBufferBytes(task, program.rank, program.nRanks, which, index), 0x5A);
  }
  return result;
}

/// INPUT moves into the memory that it shares with OUTPUT, which is kept as the output.
void share(Launch& launch, int rank) {
  int64_t shift = 0;
  Bytes& in = launch.inputs[rank][0];
  Bytes& out = launch.outputs[rank][0];
  if (!encInPlace(launch.programs[rank].task, rank, &shift) || in.empty() || out.empty()) return;
  if (in.size() > out.size()) out.resize(in.size());
  std::copy(in.begin(), in.end(), out.begin() + std::max<int64_t>(-shift, 0));
}

}  // namespace

Launch makeLaunch(const World& world, const std::vector<encProgram>& programs, bool inPlace) {
  Launch launch;
  launch.programs = programs;
  launch.inPlace = inPlace;
  const encTask& task = programs[0].task;
  launch.divisor = world.rank_n();
  for (const encProgram& program : programs) {
    // Each rank has a scalar of its own.
    launch.scales.push_back(task.redOp == ncclAvg ? 1.0 / world.rank_n() : program.rank % 3 + 1);
    launch.inputs.push_back(buffers(program, encBuffer::Input));
    launch.outputs.push_back(buffers(program, encBuffer::Output));
    uint16_t index = 0;
    for (Bytes& input : launch.inputs.back()) {
      withType(task.type,
               [&](auto zero) { fill<decltype(zero)>(input, task.redOp, program.rank, index); });
      index++;
    }
    if (inPlace) share(launch, program.rank);
  }
  return launch;
}

std::string compare(const World& world, const Launch& before, const Launch& after) {
  for (int rank = 0; rank < world.rank_n(); rank++) {
    const encTask& task = before.programs[rank].task;
    const bool permutes = task.op == encOp::Permute || task.op == encOp::PermuteReduce;
    const std::string wrong =
        task.op == encOp::SendRecv
            ? compareMessages(before, after, rank)
            : withType(task.type, [&](auto zero) {
                return permutes ? comparePermute<decltype(zero)>(world, before, after, rank)
                                : compareRank<decltype(zero)>(before, after, rank);
              });
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string check(const World& world, const encTask& task, uint64_t seed, bool inPlace) {
  return check(world, composeAll(world, task), seed, inPlace);
}

std::string check(const World& world, const std::vector<encProgram>& programs, uint64_t seed,
                  bool inPlace) {
  if (programs.empty()) return "not composed";
  std::vector<Launch> launches{makeLaunch(world, programs, inPlace)};
  const Launch before = launches[0];
  const RunResult result = interpret(world, launches, seed);
  return result.error.empty() ? compare(world, before, launches[0]) : result.error;
}

}  // namespace nccom::test
