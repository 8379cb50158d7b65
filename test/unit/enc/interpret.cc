#include "test/unit/enc/interpret.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <utility>

#include "enc/buffers.h"
#include "enc/layout.h"
#include "misc/datatype.h"

namespace nccom::test {
namespace {

constexpr unsigned char kRubbish = 0xA5;

template <class T>
T fold(ncclRedOp_t op, T a, T b) {
  switch (static_cast<int>(op)) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

struct Arithmetic {
  ncclRedOp_t op = ncclSum;
  double scale = 1;
  int64_t divisor = 1;
};

template <class T>
void compute(const Arithmetic& how, const encDesc& desc,
             const std::vector<const unsigned char*>& sources, std::vector<unsigned char>& result) {
  for (size_t at = 0; at < desc.bytes; at += sizeof(T)) {
    T sum{};
    for (size_t k = 0; k < sources.size(); k++) {
      T value;
      memcpy(&value, sources[k] + at, sizeof(T));
      if ((desc.scaledSources >> k & 1) != 0) {
        value = static_cast<T>(static_cast<double>(value) * how.scale);
      }
      sum = k == 0 ? value : fold(how.op, sum, value);
    }
    if (desc.divide) sum = static_cast<T>(sum / static_cast<T>(how.divisor));
    memcpy(&result[at], &sum, sizeof(T));
  }
}

struct Cursor {
  size_t block = 0, desc = 0;
  uint64_t iteration = 0;
};

struct Post {
  size_t launch = 0;
  uint16_t index = 0;
  uint64_t bytes = 0;
  bool byValue = false, taken = false;
  Bytes value;
};
using Mail = std::map<uint64_t, Post>;  // by number

struct Entry {
  int64_t offset = 0;
  uint64_t bytes = 0;
};

struct Rank {
  size_t launch = 0;  // that it is in; number of launches when it is through
  std::vector<Cursor> cursors;
  size_t running = 0;  // queues
  Bytes scratch;
  std::vector<int64_t> semaphores, bases;
  std::map<int, uint64_t> posted, received;  // messages of earlier launches, by peer
};

struct Increment {
  int rank = 0;
  uint32_t semaphore = 0;
  int64_t value = 0;
};

class Machine {
 public:
  Machine(const World& world, std::vector<Launch>& launches, uint64_t seed)
      : world_(world), launches_(launches), random_(seed) {
    for (int rank = 0; rank < world.rank_n(); rank++) {
      layouts_.push_back(encLayout::of(world.info(rank)));
      Rank state;
      state.scratch.assign(layouts_.back().scratchBytes(), kRubbish);
      state.semaphores.assign(layouts_.back().semaphores(), 0);
      state.bases = state.semaphores;
      ranks_.push_back(std::move(state));
    }
  }

  RunResult run() {
    for (size_t rank = 0; rank < ranks_.size(); rank++)
      start(static_cast<int>(rank));
    while (error_.empty() && unfinished_ > 0) {
      if (!oneEvent()) {
        error_ = "deadlock" + blocked();
        break;
      }
    }
    return {error_, sent_};
  }

 private:
  const encProgram& programOf(int rank) const {
    return launches_[ranks_[rank].launch].programs[rank];
  }

  void start(int rank) {
    Rank& state = ranks_[rank];
    while (state.launch < launches_.size()) {
      if (programOf(rank).inputByValue) copyInput(rank);
      if (programOf(rank).queues.empty()) {
        end(rank);
        continue;
      }
      state.cursors.assign(programOf(rank).queues.size(), {});
      state.running = state.cursors.size();
      for (size_t queue = 0; queue < state.cursors.size(); queue++) {
        queues_.emplace_back(rank, queue);
      }
      unfinished_++;
      return;
    }
  }

  void copyInput(int rank) {
    const size_t launch = ranks_[rank].launch;
    const encProgram& program = programOf(rank);
    const uint64_t bytes = encBufferBytes(program.task, rank, program.nRanks, encBuffer::Input, 0);
    const Place place = buffers(launch, rank, encBuffer::Input, 0, 0, bytes);
    copies_[{launch, rank}] = Bytes(place.data, place.data + bytes);
  }

  /// The rank's program has ended: its OUTPUT counts now, its buffers are its owner's again.
  void end(int rank) {
    Rank& state = ranks_[rank];
    Launch& launch = launches_[state.launch];
    ended_.emplace(std::pair(state.launch, rank), launch.outputs[rank]);
    for (auto* buffers : {&launch.inputs[rank], &launch.outputs[rank]}) {
      for (Bytes& buffer : *buffers)
        std::fill(buffer.begin(), buffer.end(), kRubbish);
    }
    for (const auto& [semaphore, total] : programOf(rank).totals) {
      state.bases[semaphore] += static_cast<int64_t>(total);
    }
    for (const encMessage& send : programOf(rank).task.sends)
      state.posted[send.peer]++;
    for (const encMessage& recv : programOf(rank).task.recvs)
      state.received[recv.peer]++;
    state.launch++;
  }

  /// Something random that can happen happens; false: nothing can.
  bool oneEvent() {
    const size_t choices = queues_.size() + 1 + wires_.size();
    const size_t first = random_() % choices;
    for (size_t i = 0; i < choices; i++) {
      const size_t choice = (first + i) % choices;
      if (choice < queues_.size()    ? step(choice)
          : choice == queues_.size() ? deliver()
                                     : network()) {
        return true;
      }
      if (!error_.empty()) return true;
    }
    return false;
  }

  bool deliver() {
    if (pending_.empty()) return false;
    const size_t which = random_() % pending_.size();
    const Increment increment = pending_[which];
    pending_[which] = pending_.back();
    pending_.pop_back();
    ranks_[increment.rank].semaphores[increment.semaphore] += increment.value;
    return true;
  }

  bool network() {
    if (wires_.empty()) return false;
    auto wire = std::next(wires_.begin(), static_cast<long>(random_() % wires_.size()));
    for (size_t i = 0; i < wires_.size(); i++) {
      if (transfer(wire->second)) return true;
      if (++wire == wires_.end()) wire = wires_.begin();
    }
    return false;
  }

  struct Wire {
    int from = 0, to = 0;
    uint32_t sentSemaphore = 0, receivedSemaphore = 0;
    std::deque<Entry> sends, receives;
  };

  bool transfer(Wire& wire) {
    if (wire.sends.empty() || wire.receives.empty()) return false;
    const Entry send = wire.sends.front(), receive = wire.receives.front();
    if (send.bytes != receive.bytes) {
      error_ = "a network entry of " + std::to_string(send.bytes) + " bytes meets a receive of " +
               std::to_string(receive.bytes);
      return false;
    }
    memcpy(&ranks_[wire.to].scratch[receive.offset], &ranks_[wire.from].scratch[send.offset],
           send.bytes);
    sent_ += send.bytes;
    wire.sends.pop_front();
    wire.receives.pop_front();
    pending_.push_back({wire.from, wire.sentSemaphore, 1});
    pending_.push_back({wire.to, wire.receivedSemaphore, 1});
    return true;
  }

  bool step(size_t which) {
    const auto [rank, queue] = queues_[which];
    Rank& state = ranks_[rank];
    const encProgram& program = programOf(rank);
    Cursor& at = state.cursors[queue];
    const encBlock& block = program.queues[queue].blocks[at.block];
    if (!execute(rank, program, block.descs[at.desc], at.iteration)) return false;
    if (++at.desc < block.descs.size()) return true;
    at.desc = 0;
    if (++at.iteration < block.repeat) return true;
    at.iteration = 0;
    if (++at.block < program.queues[queue].blocks.size()) return true;
    queues_[which] = queues_.back();
    queues_.pop_back();
    if (--state.running == 0) {
      end(rank);
      unfinished_--;
      start(rank);
    }
    return true;
  }

  bool execute(int rank, const encProgram& program, const encDesc& desc, uint64_t iteration) {
    Rank& state = ranks_[rank];
    const auto i = static_cast<int64_t>(iteration);
    switch (desc.type) {
      case encDescType::Transfer:
        return move(rank, desc, i);
      case encDescType::Wait:
        return state.semaphores[desc.semaphore] >=
               state.bases[desc.semaphore] + desc.value + i * desc.stride;
      case encDescType::Inc:
        pending_.push_back({desc.rank, desc.semaphore, desc.value});
        return true;
      case encDescType::Post:
        return post(rank, desc);
      case encDescType::NetSend:
      case encDescType::NetRecv:
        return post(rank, program.connections[desc.connection], desc);
    }
    return false;
  }

  /// false: too many messages have not been read
  bool post(int rank, const encDesc& desc) {
    Rank& state = ranks_[rank];
    Mail& mail = mail_[{rank, desc.rank}];
    const uint64_t number = state.posted[desc.rank] + static_cast<uint64_t>(desc.value);
    const uint64_t ahead = encPostedAhead(desc.byValue);
    if (number >= ahead) {
      const auto earlier = mail.find(number - ahead);
      if (earlier == mail.end() || !earlier->second.taken) return false;
    }
    Post post{state.launch, desc.index, desc.bytes, desc.byValue, false, {}};
    if (desc.byValue) {
      const Place from = buffers(state.launch, rank, encBuffer::Input, desc.index, 0, desc.bytes);
      if (!error_.empty()) return false;
      post.value.assign(from.data, from.data + desc.bytes);
    }
    if (!mail.emplace(number, std::move(post)).second) error_ = "a message is posted twice";
    return error_.empty();
  }

  Post* messageAt(int rank, const encAddress& address) {
    Mail& mail = mail_[{address.rank, rank}];
    const auto found = mail.find(ranks_[rank].received[address.rank] + address.index);
    return found == mail.end() ? nullptr : &found->second;
  }

  bool post(int rank, const encConnection& connection, const encDesc& desc) {
    const int from = connection.send ? rank : connection.peer;
    const int to = connection.send ? connection.peer : rank;
    Wire& wire = wires_[{from, to, connection.channel}];
    wire.from = from;
    wire.to = to;
    (connection.send ? wire.sentSemaphore : wire.receivedSemaphore) = connection.semaphore;
    (connection.send ? wire.sends : wire.receives).push_back({desc.net.offset, desc.bytes});
    return true;
  }

  bool move(int rank, const encDesc& desc, int64_t iteration) {
    std::vector<const unsigned char*> sources;
    for (const encAddress& address : desc.sources) {
      const Place place = locate(rank, address, iteration, desc.bytes);
      if (place.wait || !error_.empty()) return false;
      sources.push_back(place.data);
    }
    std::vector<unsigned char*> destinations;
    for (const encAddress& address : desc.destinations) {
      const Place place = locate(rank, address, iteration, desc.bytes);
      if (place.wait || !error_.empty()) return false;
      destinations.push_back(place.data);
    }
    for (const encAddress& address : desc.sources) {
      if (address.buffer == encBuffer::Posted) messageAt(rank, address)->taken = true;
    }
    const Launch& launch = launches_[ranks_[rank].launch];
    Bytes result(desc.bytes);
    const encTask& task = programOf(rank).task;
    if (desc.bytes == 0 && desc.sources.size() == 1) return true;
    if (sources.size() == 1 && desc.scaledSources == 0 && !desc.divide) {
      memcpy(result.data(), sources[0], desc.bytes);
    } else {
      arithmetic(task, {task.redOp, launch.scales[rank], launch.divisor}, desc, sources, result);
    }
    for (unsigned char* destination : destinations)
      memcpy(destination, result.data(), desc.bytes);
    for (const encAddress& address : desc.destinations)
      sent_ += address.rank != rank ? desc.bytes : 0;
    for (const encAddress& address : desc.sources)
      sent_ += address.rank != rank ? desc.bytes : 0;
    return true;
  }

  void arithmetic(const encTask& task, const Arithmetic& how, const encDesc& desc,
                  const std::vector<const unsigned char*>& sources, Bytes& result) {
    switch (task.type) {
      case ncclInt8:
        return compute<int8_t>(how, desc, sources, result);
      case ncclUint8:
        return compute<uint8_t>(how, desc, sources, result);
      case ncclInt32:
        return compute<int32_t>(how, desc, sources, result);
      case ncclInt64:
        return compute<int64_t>(how, desc, sources, result);
      case ncclFloat32:
        return compute<float>(how, desc, sources, result);
      case ncclFloat64:
        return compute<double>(how, desc, sources, result);
      default:
        error_ = "a type that this interpreter does not compute with";
    }
  }

  struct Place {
    unsigned char* data = nullptr;
    bool wait = false;
  };

  Place locate(int rank, const encAddress& address, int64_t iteration, uint64_t bytes) {
    const int64_t offset = address.offset + iteration * address.stride;
    if (address.buffer == encBuffer::Scratch) {
      return bounded(ranks_[address.rank].scratch, offset, bytes);
    }
    size_t launch = ranks_[rank].launch;
    encBuffer buffer = address.buffer;
    uint16_t index = address.index;
    if (buffer == encBuffer::Posted) {
      Post* const message = messageAt(rank, address);
      if (message == nullptr) return {nullptr, true};
      if (message->bytes != bytes || message->taken) {
        error_ = "message " + std::to_string(index) + " is of another size, or was read before";
        return {};
      }
      if (message->byValue) return bounded(message->value, offset, bytes);
      launch = message->launch;
      index = message->index;
      buffer = encBuffer::Input;
    } else if (ranks_[address.rank].launch < launch) {
      return {nullptr, true};
    }
    const auto copy = copies_.find({launch, address.rank});
    if (buffer == encBuffer::Input && copy != copies_.end() && address.rank != rank) {
      return bounded(copy->second, offset, bytes);
    }
    if (ranks_[address.rank].launch > launch) {
      error_ = "a buffer of rank " + std::to_string(address.rank) +
               " is touched after its program ended";
      return {};
    }
    return buffers(launch, address.rank, buffer, index, offset, bytes);
  }

  Place buffers(size_t number, int rank, encBuffer buffer, uint16_t index, int64_t offset,
                uint64_t bytes) {
    Launch& launch = launches_[number];
    int64_t shift = 0;
    const bool output = buffer == encBuffer::Output;
    if (launch.inPlace && encInPlace(launch.programs[rank].task, rank, &shift)) {
      // The larger of the two holds both; where a rank has but one of them, there is nothing to
      // share.
      Bytes& in = launch.inputs[rank][0];
      Bytes& out = launch.outputs[rank][0];
      if (in.empty() || out.empty()) return bounded(output ? out : in, offset, bytes);
      return bounded(
          out,
          output ? offset + std::max<int64_t>(shift, 0) : offset + std::max<int64_t>(-shift, 0),
          bytes);
    }
    return bounded((output ? launch.outputs : launch.inputs)[rank][index], offset, bytes);
  }

  Place bounded(Bytes& buffer, int64_t offset, uint64_t bytes) {
    if (offset < 0 || static_cast<uint64_t>(offset) + bytes > buffer.size()) {
      error_ = "bytes " + std::to_string(offset) + " + " + std::to_string(bytes) +
               " of a buffer of " + std::to_string(buffer.size());
      return {};
    }
    return {buffer.data() + offset, false};
  }

  std::string blocked() const {
    std::string text;
    for (const auto& [rank, queue] : queues_) {
      const Cursor& at = ranks_[rank].cursors[queue];
      const encBlock& block = programOf(rank).queues[queue].blocks[at.block];
      text += "\n  rank " + std::to_string(rank) + " queue " + std::to_string(queue) + ": " +
              encDump(block.descs[at.desc]);
    }
    return text;
  }

  const World& world_;
  std::vector<Launch>& launches_;
  std::mt19937_64 random_;
  std::vector<encLayout> layouts_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<int, size_t>> queues_;
  size_t unfinished_ = 0;
  std::vector<Increment> pending_;
  std::map<std::tuple<int, int, int>, Wire> wires_;
  std::map<std::pair<int, int>, Mail> mail_;        // {from, to}
  std::map<std::pair<size_t, int>, Bytes> copies_;  // {launch, rank}: INPUT that is given by value
  std::map<std::pair<size_t, int>, std::vector<Bytes>> ended_;
  std::string error_;
  uint64_t sent_ = 0;

 public:
  /// What each rank had in OUTPUT when its program ended.
  void takeOutputs() {
    for (auto& [key, outputs] : ended_)
      launches_[key.first].outputs[key.second] = std::move(outputs);
  }
};

}  // namespace

RunResult interpret(const World& world, std::vector<Launch>& launches, uint64_t seed) {
  Machine machine(world, launches, seed);
  RunResult result = machine.run();
  machine.takeOutputs();
  return result;
}

}  // namespace nccom::test
