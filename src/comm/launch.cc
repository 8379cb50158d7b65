#include "comm/launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "enc/buffers.h"
#include "enc/encd.h"
#include "enc/select.h"
#include "enc/staged.h"
#include "misc/datatype.h"
#include "misc/log.h"

namespace nccom {
namespace {

// Programs that a communicator keeps loaded. Training loops repeat a few dozen calls.
constexpr size_t kMaxPrograms = 256;

encTask taskOf(const CollectiveCall& call) {
  encTask task;
  task.op = call.op;
  task.count = call.count;
  task.type = call.type;
  task.redOp = call.redOp < ncclNumOps ? call.redOp : kRedOpPreMulSum;
  task.root = call.root;
  return task;
}

encTask taskOf(std::span<const MessageCall> calls) {
  encTask task;
  task.op = encOp::SendRecv;
  for (const MessageCall& call : calls) {
    std::vector<encMessage>& list = call.send ? task.sends : task.recvs;
    const auto index = static_cast<uint16_t>(list.size());
    list.push_back({call.peer, call.count * ncclTypeSize(call.type), index});
  }
  return task;
}

LaunchScale scaleOf(const CollectiveCall& call, int nRanks, uint64_t preMulScale) {
  LaunchScale result;
  if (call.redOp >= ncclNumOps) result.scale = preMulScale;
  if (call.redOp != ncclAvg) return result;
  if (!ncclTypeIsFloat(call.type)) {
    result.divisor = nRanks;
  } else if (call.type == ncclFloat64) {
    const double factor = 1.0 / nRanks;
    memcpy(&result.scale, &factor, sizeof factor);
  } else {
    const float factor = 1.0F / static_cast<float>(nRanks);
    memcpy(&result.scale, &factor, sizeof factor);
  }
  return result;
}

std::string nameOf(const encTask& task) {
  if (task.op == encOp::SendRecv) {
    if (task.sends.size() + task.recvs.size() > 1) {
      return "group of " + std::to_string(task.sends.size()) + " sends and " +
             std::to_string(task.recvs.size()) + " receives";
    }
    const bool sends = !task.sends.empty();
    const encMessage& message = sends ? task.sends[0] : task.recvs[0];
    return std::string(sends ? "Send to rank " : "Recv from rank ") + std::to_string(message.peer) +
           " of " + std::to_string(message.bytes) + " bytes";
  }
  std::string name = std::string(encOpName(task.op)) + " count " + std::to_string(task.count) +
                     " " + ncclTypeName(task.type);
  const bool reduces = task.op == encOp::AllReduce || task.op == encOp::Reduce ||
                       task.op == encOp::ReduceScatter || task.op == encOp::PermuteReduce;
  const bool rooted = task.op == encOp::Reduce || task.op == encOp::Broadcast ||
                      task.op == encOp::Gather || task.op == encOp::Scatter;
  if (reduces) name += std::string(" ") + ncclOpName(task.redOp);
  if (rooted) name += " root " + std::to_string(task.root);
  return name;
}

/// Layout of a float of at most 16 bits: sign, exponent, mantissa.
struct NarrowFormat {
  int exponentBits;
  int mantissaBits;
  bool hasInfinity;  // else the largest exponent is an ordinary one, and all ones a NaN
};

float narrowToFloat(uint32_t bits, const NarrowFormat& format) {
  const uint32_t mantissaMask = (1U << format.mantissaBits) - 1;
  const uint32_t exponentMask = (1U << format.exponentBits) - 1;
  const uint32_t mantissa = bits & mantissaMask;
  const uint32_t exponent = (bits >> format.mantissaBits) & exponentMask;
  const bool negative = (bits >> (format.mantissaBits + format.exponentBits) & 1) != 0;
  const int bias = static_cast<int>(exponentMask >> 1);
  const float sign = negative ? -1.0F : 1.0F;
  if (exponent == exponentMask && (format.hasInfinity || mantissa == mantissaMask)) {
    const bool infinite = format.hasInfinity && mantissa == 0;
    return infinite ? sign * std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::quiet_NaN();
  }
  const auto fraction = static_cast<float>(mantissa) / static_cast<float>(mantissaMask + 1);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0F + fraction, static_cast<int>(exponent) - bias);
}

}  // namespace

uint64_t launchScaleOf(const void* scalar, ncclDataType_t type) {
  uint64_t bits = 0;
  memcpy(&bits, scalar, ncclTypeSize(type));
  float narrow = 0;
  switch (type) {
    case ncclFloat16:
      narrow = narrowToFloat(static_cast<uint32_t>(bits), {5, 10, true});
      break;
    case ncclBfloat16:
      narrow = narrowToFloat(static_cast<uint32_t>(bits), {8, 7, true});
      break;
    case ncclFloat8e4m3:
      narrow = narrowToFloat(static_cast<uint32_t>(bits), {4, 3, false});
      break;
    case ncclFloat8e5m2:
      narrow = narrowToFloat(static_cast<uint32_t>(bits), {5, 2, true});
      break;
    default:
      return bits;
  }
  uint64_t wide = 0;
  memcpy(&wide, &narrow, sizeof narrow);
  return wide;
}

Launcher::Launcher(const enc_comm_info& info, Device& memory, int deviceNumber, DeviceComm& device,
                   NetLinks& links, bool manyProcesses)
    : info_(info),
      layout_(encLayout::of(info)),
      memory_(memory),
      deviceNumber_(deviceNumber),
      device_(device),
      links_(links),
      manyProcesses_(manyProcesses),
      called_(kRemembered) {}

Launcher::~Launcher() {
  for (auto& [task, loaded] : recent_)
    (void)device_.programUnload(loaded.handle);
}

/// Equal for equal collectives, on any rank; sends and receives match by their order alone.
int Launcher::tagOf(const encTask& task) {
  if (task.op == encOp::SendRecv) return 0;
  return static_cast<int>(TaskHash{}(task)&0x3fffffff);  // positive, and away from plugins' own
}

size_t Launcher::TaskHash::operator()(const encTask& task) const {
  uint64_t hash = 0;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio: spreads small numbers
    hash ^= hash >> 29;
  };
  mix(static_cast<uint64_t>(task.op) << 32 | static_cast<uint64_t>(task.type) << 16 |
      static_cast<uint64_t>(task.redOp));
  mix(task.count);
  mix(static_cast<uint64_t>(task.root));
  for (const encMessage& message : task.sends)
    mix(message.bytes * 131 + static_cast<uint64_t>(message.peer));
  for (const encMessage& message : task.recvs)
    mix(message.bytes * 137 + static_cast<uint64_t>(message.peer));
  for (const encPair& pair : task.pairs)
    mix(uint64_t{pair.source} << 32 | pair.target);
  return hash;
}

Result<Launcher::Loaded> Launcher::load(const encTask& task) {
  auto loaded = compose(task);
  if (loaded.ok()) return loaded;
  return fail(loaded.error().code, "rank %d: %s: %s", info_.rank, nameOf(task).c_str(),
              loaded.error().message.c_str());
}

Result<Launcher::Loaded> Launcher::compose(const encTask& task) {
  Loaded loaded;
  const encProgram program = TRY(encCompose(info_, task));
  const encdProgram lowered = TRY(encdLower(program, layout_));
  if (manyProcesses_ && encHasStaged(program)) {
    const encProgram composed = TRY(encComposeStaged(info_, task));
    const encdProgram staged = TRY(encdLower(composed, layout_));
    loaded.handle = TRY(device_.programLoad(lowered.header(), staged.header()));
  } else {
    loaded.handle = TRY(device_.programLoad(lowered.header()));
  }
  loaded.name = std::make_shared<const std::string>(nameOf(task));
  loaded.connections = program.connections;
  loaded.network = netOperationsOf(program, *loaded.name, tagOf(task));
  if (logEnabled(LogLevel::Info, kLogColl)) {
    const encChoice choice = TRY(encSelect(info_, task));
    INFO(kLogColl, "rank %d: %s: algorithm %s, %zu queues, %zu network connections; %s", info_.rank,
         loaded.name->c_str(), program.algorithm.c_str(), program.queues.size(),
         program.connections.size(), choice.why.c_str());
  }
  return loaded;
}

Result<Launcher::Loaded*> Launcher::find(const encTask& task) {
  if (!recent_.empty() && recent_.front().first == task) return &recent_.front().second;
  const auto found = programs_.find(task);
  if (found != programs_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return &found->second->second;
  }
  Loaded loaded = TRY(load(task));
  recent_.emplace_front(task, std::move(loaded));
  programs_.emplace(task, recent_.begin());
  if (recent_.size() > kMaxPrograms) {
    known_ = {};
    knownGroups_ = {};
    TRY(device_.programUnload(recent_.back().second.handle));
    programs_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return &recent_.front().second;
}

Result<std::vector<encConnection>> Launcher::connectionsOf(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  return TRY(find(taskOf(call)))->connections;
}

Result<std::vector<encConnection>> Launcher::connectionsOf(std::span<const MessageCall> calls) {
  const std::lock_guard lock(mutex_);
  return TRY(find(taskOf(calls)))->connections;
}

Status Launcher::start(const Loaded& loaded, nccomLaunch_v1& launch, void* stream) {
  // The proxy learns of the transfers first, so that it knows what an advancing index means.
  for (const NetOperation& operation : loaded.network)
    TRY(links_.submit(operation));
  launch.opCount = opCount_ + 1;
  launch.name = loaded.name->c_str();
  TRY(device_.launch(loaded.handle, launch, stream));
  // Counted only now: a call that was refused has not happened, on any rank's count.
  ++opCount_;
  if (launch.collective != 0) called_[++collectives_ % kRemembered] = loaded.name;
  return Ok{};
}

std::shared_ptr<const std::string> Launcher::called(uint64_t collective) {
  const std::lock_guard lock(mutex_);
  const bool known = collective <= collectives_ && collective + kRemembered > collectives_;
  return known ? called_[collective % kRemembered] : nullptr;
}

Status Launcher::launch(const CollectiveCall& call, uint64_t preMulScale) {
  const std::lock_guard lock(mutex_);
  const bool inPlace = call.send == call.recv && call.count > 0;
  if (call.op == encOp::AlltoAll && inPlace) return launchInPlaceAlltoAll(call);
  return launchCollective(call, preMulScale);
}

Status Launcher::launch(std::span<const MessageCall> calls) {
  const std::lock_guard lock(mutex_);
  return launchMessages(calls);
}

Result<void*> Launcher::stagingOf(uint64_t bytes) {
  if (staging_.empty() || staging_.back().second < bytes) {
    staging_.emplace_back(TRY(memory_.memAlloc(deviceNumber_, bytes)), bytes);
  }
  return staging_.back().first;
}

// Every block of the buffer is both read by its receiver and written by its sender, so the input is
// copied first: a message to oneself, then an AlltoAll that is not in place.
Status Launcher::launchInPlaceAlltoAll(const CollectiveCall& call) {
  const size_t count = call.count * static_cast<size_t>(info_.rank_n);
  void* staging = TRY(stagingOf(count * ncclTypeSize(call.type)));
  const MessageCall copy[2] = {
      {true, call.recv, count, call.type, info_.rank, call.comm, call.stream},
      {false, staging, count, call.type, info_.rank, call.comm, call.stream}};
  TRY(launchMessages(copy));
  CollectiveCall outOfPlace = call;
  outOfPlace.send = staging;
  return launchCollective(outOfPlace, 0);
}

bool Launcher::Known::is(const CollectiveCall& other) const {
  // A PreMulSum operator may have another scalar than its last one of that number.
  return loaded != nullptr && call.op == other.op && call.send == other.send &&
         call.recv == other.recv && call.count == other.count && call.type == other.type &&
         call.redOp == other.redOp && call.redOp < ncclNumOps && call.root == other.root;
}

const Launcher::Known* Launcher::recall(const CollectiveCall& call) const {
  for (const Known& known : known_) {
    if (known.is(call)) return &known;
  }
  return nullptr;
}

Result<const Launcher::Known*> Launcher::know(const CollectiveCall& call, uint64_t preMulScale) {
  if (const Known* const known = recall(call)) return known;
  const encTask task = taskOf(call);
  const Loaded& loaded = *TRY(find(task));
  const auto bytesOf = [&](encBuffer buffer) {
    return encBufferBytes(task, info_.rank, info_.rank_n, buffer, 0);
  };
  Known& known = known_[nextKnown_++ % known_.size()];
  known.call = call;
  known.loaded = &loaded;
  known.input = {const_cast<void*>(call.send), bytesOf(encBuffer::Input)};
  known.output = {call.recv, bytesOf(encBuffer::Output)};
  const LaunchScale scale = scaleOf(call, info_.rank_n, preMulScale);
  nccomLaunch_v1& launch = known.launch = {};
  launch.inputs = &known.input;
  launch.outputs = &known.output;
  launch.nInputs = launch.nOutputs = 1;
  launch.scale = scale.scale;
  launch.divisor = scale.divisor;
  launch.signature.kind = static_cast<uint32_t>(call.op);
  launch.signature.dataType = static_cast<uint32_t>(call.type);
  launch.signature.redOp = static_cast<uint32_t>(task.redOp);
  launch.signature.root = static_cast<uint32_t>(call.root);
  launch.signature.count = call.count;
  return &known;
}

Status Launcher::launchCollective(const CollectiveCall& call, uint64_t preMulScale) {
  return start(*TRY(know(call, preMulScale)), call.stream);
}

Status Launcher::start(const Known& known, void* stream) {
  nccomLaunch_v1 launch = known.launch;
  launch.collective = collectives_ + 1;
  return start(*known.loaded, launch, stream);
}

std::optional<Status> Launcher::repeat(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  const Known* const known = recall(call);
  if (known == nullptr) return std::nullopt;
  return start(*known, call.stream);
}

bool Launcher::KnownGroup::is(std::span<const MessageCall> others) const {
  return loaded != nullptr && std::equal(calls.begin(), calls.end(), others.begin(), others.end(),
                                         [](const MessageCall& a, const MessageCall& b) {
                                           return a.send == b.send && a.buffer == b.buffer &&
                                                  a.count == b.count && a.type == b.type &&
                                                  a.peer == b.peer;
                                         });
}

const Launcher::KnownGroup* Launcher::recall(std::span<const MessageCall> calls) const {
  for (const KnownGroup& known : knownGroups_) {
    if (known.is(calls)) return &known;
  }
  return nullptr;
}

Result<const Launcher::KnownGroup*> Launcher::know(std::span<const MessageCall> calls) {
  if (const KnownGroup* const known = recall(calls)) return known;
  const Loaded& loaded = *TRY(find(taskOf(calls)));
  KnownGroup& known = knownGroups_[nextKnownGroup_++ % knownGroups_.size()];
  known.calls.assign(calls.begin(), calls.end());
  known.loaded = &loaded;
  known.inputs.clear();
  known.outputs.clear();
  for (const MessageCall& call : calls) {
    (call.send ? known.inputs : known.outputs)
        .push_back({call.buffer, call.count * ncclTypeSize(call.type)});
  }
  nccomLaunch_v1& launch = known.launch = {};
  launch.inputs = known.inputs.data();
  launch.outputs = known.outputs.data();
  launch.nInputs = static_cast<uint32_t>(known.inputs.size());
  launch.nOutputs = static_cast<uint32_t>(known.outputs.size());
  launch.divisor = 1;
  launch.signature.kind = static_cast<uint32_t>(encOp::SendRecv);
  return &known;
}

Status Launcher::launchMessages(std::span<const MessageCall> calls) {
  return start(*TRY(know(calls)), calls[0].stream);
}

Status Launcher::start(const KnownGroup& known, void* stream) {
  nccomLaunch_v1 launch = known.launch;
  return start(*known.loaded, launch, stream);
}

std::optional<Status> Launcher::repeat(std::span<const MessageCall> calls) {
  const std::lock_guard lock(mutex_);
  const KnownGroup* const known = recall(calls);
  if (known == nullptr) return std::nullopt;
  return start(*known, calls[0].stream);
}

}  // namespace nccom
