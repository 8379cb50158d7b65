#include "engine_world.h"

#include <gtest/gtest.h>

namespace nccom::emu {

ProgramBuilder::ProgramBuilder(int rank, int nRanks, ncclDataType_t type, ncclRedOp_t op) {
  head_.magic = NCCOM_PROGRAM_MAGIC;
  head_.version = NCCOM_PROGRAM_VERSION;
  head_.rank = rank;
  head_.nRanks = nRanks;
  head_.dataType = type;
  head_.redOp = op;
  queue();
}

ProgramBuilder& ProgramBuilder::queue(uint32_t channel) {
  if (!queues_.empty() && queues_.back().nBlocks == 1 && blocks_.back().nDescs == 0) {
    queues_.pop_back();
    blocks_.pop_back();
  }
  queues_.push_back({static_cast<uint32_t>(blocks_.size()), 0, channel, 0});
  return block(1);
}

ProgramBuilder& ProgramBuilder::block(uint64_t repeat) {
  if (queues_.back().nBlocks > 0 && blocks_.back().nDescs == 0) {
    blocks_.pop_back();
    queues_.back().nBlocks--;
  }
  blocks_.push_back({static_cast<uint32_t>(descs_.size()), 0, repeat});
  queues_.back().nBlocks++;
  return *this;
}

nccomDesc_v1& ProgramBuilder::add(nccomDescType_t type) {
  nccomDesc_v1 desc{};
  desc.type = static_cast<uint16_t>(type);
  desc.step = static_cast<uint16_t>(steps_.size() - 1);
  descs_.push_back(desc);
  blocks_.back().nDescs++;
  return descs_.back();
}

ProgramBuilder& ProgramBuilder::transfer(std::vector<nccomAddress_v1> sources,
                                         std::vector<nccomAddress_v1> destinations, uint64_t bytes,
                                         uint64_t scaledSources) {
  nccomDesc_v1& desc = add(nccomDescTransfer);
  desc.nSources = static_cast<uint16_t>(sources.size());
  desc.nDestinations = static_cast<uint16_t>(destinations.size());
  desc.firstAddress = static_cast<uint32_t>(addresses_.size());
  desc.bytes = bytes;
  desc.scaledSources = scaledSources;
  if (scaledSources != 0) desc.flags = NCCOM_TRANSFER_SCALE;
  addresses_.insert(addresses_.end(), sources.begin(), sources.end());
  addresses_.insert(addresses_.end(), destinations.begin(), destinations.end());
  return *this;
}

ProgramBuilder& ProgramBuilder::divided() {
  descs_.back().flags |= NCCOM_TRANSFER_DIVIDE;
  return *this;
}

ProgramBuilder& ProgramBuilder::wait(int from, uint32_t semaphore, int64_t value, int64_t stride) {
  nccomDesc_v1& desc = add(nccomDescWait);
  desc.rank = from;
  desc.semaphore = semaphore;
  desc.value = value;
  desc.stride = stride;
  return *this;
}

ProgramBuilder& ProgramBuilder::inc(int rank, uint32_t semaphore, int64_t value) {
  nccomDesc_v1& desc = add(nccomDescInc);
  desc.rank = rank;
  desc.semaphore = semaphore;
  desc.value = value;
  return *this;
}

ProgramBuilder& ProgramBuilder::post(int rank, int64_t message, uint16_t inputIndex, uint64_t bytes,
                                     bool byValue) {
  nccomDesc_v1& desc = add(nccomDescPost);
  desc.flags = byValue ? NCCOM_POST_VALUE : 0;
  desc.rank = rank;
  desc.value = message;
  desc.index = inputIndex;
  desc.bytes = bytes;
  return *this;
}

ProgramBuilder& ProgramBuilder::net(bool send, uint32_t connection) {
  add(send ? nccomDescNetSend : nccomDescNetRecv).connection = connection;
  return *this;
}

ProgramBuilder& ProgramBuilder::total(uint32_t semaphore, uint64_t increments) {
  totals_.push_back({semaphore, 0, increments});
  return *this;
}

ProgramBuilder& ProgramBuilder::step(const std::string& name) {
  steps_.push_back(name);
  return *this;
}

ProgramBuilder& ProgramBuilder::peersTouch(bool inputs, bool outputs) {
  head_.peerInputs = inputs;
  head_.peerOutputs = outputs;
  return *this;
}

ProgramBuilder& ProgramBuilder::givesValue() {
  head_.peerInputs = 2;
  return *this;
}

const nccomProgram_v1* ProgramBuilder::build() {
  words_.assign((sizeof head_ + 7) / 8, 0);
  const auto append = [this](const void* data, size_t bytes) {
    const size_t offset = words_.size() * 8;
    words_.resize(words_.size() + (bytes + 7) / 8);
    if (bytes > 0) memcpy(reinterpret_cast<std::byte*>(words_.data()) + offset, data, bytes);
    return static_cast<uint32_t>(offset);
  };
  const auto table = [&append](const auto& entries) {
    return append(entries.data(), entries.size() * sizeof entries[0]);
  };
  nccomProgram_v1 head = head_;
  head.queues = table(queues_);
  head.blocks = table(blocks_);
  head.descs = table(descs_);
  head.addresses = table(addresses_);
  head.totals = table(totals_);
  std::string names;
  for (const std::string& name : steps_)
    names += name + std::string(32 - name.size(), '\0');
  head.steps = append(names.data(), names.size());
  head.nQueues = static_cast<uint32_t>(queues_.size());
  head.nBlocks = static_cast<uint32_t>(blocks_.size());
  head.nDescs = static_cast<uint32_t>(descs_.size());
  head.nAddresses = static_cast<uint32_t>(addresses_.size());
  head.nTotals = static_cast<uint32_t>(totals_.size());
  head.nSteps = static_cast<uint32_t>(steps_.size());
  head.bytes = static_cast<uint32_t>(words_.size() * 8);
  memcpy(words_.data(), &head, sizeof head);
  return reinterpret_cast<const nccomProgram_v1*>(words_.data());
}

ProgramBuilder ringAllReduce(int rank, int nRanks, uint64_t chunk, uint64_t passes,
                             ncclDataType_t type) {
  constexpr uint32_t kReceived = 0, kCredit = 1;
  const auto bytes = static_cast<int64_t>(chunk * 4);
  const int64_t stride = bytes * nRanks;
  ProgramBuilder program(rank, nRanks, type);
  if (nRanks == 1) {
    program.block(passes).transfer({input(0, 0, stride)}, {output(0, 0, stride)}, chunk * 4);
    return program;
  }
  const int next = (rank + 1) % nRanks, prev = (rank + nRanks - 1) % nRanks;
  const int64_t steps = 2 * (nRanks - 1);
  program.wait(next, kCredit, 0).block(passes);
  int64_t sent = 0, received = 0;
  for (int k = 0; k <= steps; k++) {
    const int64_t at = bytes * ((rank - k + 2 * nRanks) % nRanks);
    const bool receives = k > 0, sends = k < steps;
    const bool reduces = receives && k < nRanks, writes = k >= nRanks - 1;
    program.step(receives ? reduces ? "Reduce" : "Copy" : "Send");
    if (receives) program.wait(prev, kReceived, received + 1, steps);
    if (sends) program.wait(next, kCredit, sent + 1 - kRingSlots, steps);
    std::vector<nccomAddress_v1> sources, destinations;
    if (receives) sources.push_back(scratch(rank, received % kRingSlots * bytes));
    if (reduces || !receives) sources.push_back(input(rank, at, stride));
    if (writes) destinations.push_back(output(rank, at, stride));
    if (sends) destinations.push_back(scratch(next, sent % kRingSlots * bytes));
    program.transfer(sources, destinations, chunk * 4);
    if (sends) program.inc(next, kReceived);
    if (receives) program.inc(prev, kCredit);
    sent += sends ? 1 : 0;
    received += receives ? 1 : 0;
  }
  program.total(kReceived, static_cast<uint64_t>(steps) * passes);
  program.total(kCredit, static_cast<uint64_t>(steps) * passes);
  return program;
}

nccomDeviceConfig_v1 deviceConfig(const WorldOptions& options) {
  nccomDeviceConfig_v1 config{};
  config.size = sizeof config;
  config.nDevices = 128;
  config.engineThreads = options.engineThreads;
  config.hbmBytes = uint64_t{1} << 30;
  config.cma = options.cma;
  return config;
}

nccomDeviceCommConfig_v1 commConfig(const WorldOptions& options, int rank) {
  nccomDeviceCommConfig_v1 config{};
  config.size = sizeof config;
  config.rank = rank;
  config.nRanks = options.nRanks;
  config.device = rank;
  config.checkCalls = 1;
  config.nSemaphores = options.nSemaphores;
  config.nConnections = options.nConnections;
  config.scratchBytes = options.scratchBytes;
  config.timeoutMs = options.timeoutMs;
  config.host = options.host;
  return config;
}

World::World(const WorldOptions& options) : options_(options) {
  const nccomDeviceConfig_v1 config = deviceConfig(options);
  for (int i = 0; i < options.nProcesses; i++) {
    void* context = nullptr;
    EXPECT_EQ(emu().init(&config, &context), ncclSuccess) << emu().lastError();
    contexts_.push_back(context);
  }
  for (int rank = 0; rank < options.nRanks; rank++) {
    const nccomDeviceCommConfig_v1 rankConfig = commConfig(options, rank);
    void *comm = nullptr, *stream = nullptr;
    EXPECT_EQ(emu().commCreate(context(rank), &rankConfig, &comm), ncclSuccess)
        << emu().lastError();
    EXPECT_EQ(emu().streamCreate(context(rank), rank, &stream), ncclSuccess) << emu().lastError();
    comms_.push_back(comm);
    streams_.push_back(stream);
  }
  if (options.connect) connect();
}

void World::connect() {
  std::vector<nccomDeviceHandle_v1> handles(comms_.size());
  const std::vector<int32_t> sameHost(comms_.size(), 1);
  for (int rank = 0; rank < nRanks(); rank++) {
    EXPECT_EQ(emu().commExport(comm(rank), &handles[rank]), ncclSuccess) << emu().lastError();
  }
  for (int rank = 0; rank < nRanks(); rank++) {
    EXPECT_EQ(emu().commConnect(comm(rank), handles.data(), sameHost.data(), 20'000), ncclSuccess)
        << emu().lastError();
  }
}

World::~World() {
  for (int rank = 0; rank < nRanks(); rank++)
    destroy(rank);
  for (const auto& [context, address] : memory_) {
    EXPECT_EQ(emu().memFree(context, address), ncclSuccess) << emu().lastError();
  }
  for (void* context : contexts_) {
    EXPECT_EQ(emu().finalize(context), ncclSuccess) << emu().lastError();
  }
}

void World::destroy(int rank) {
  if (comms_[rank] == nullptr) return;
  EXPECT_EQ(emu().commDestroy(comms_[rank]), ncclSuccess) << emu().lastError();
  comms_[rank] = nullptr;
}

void* World::load(int rank, ProgramBuilder program) {
  void* loaded = nullptr;
  EXPECT_EQ(emu().programLoad(comm(rank), program.build(), nullptr, &loaded), ncclSuccess)
      << emu().lastError();
  return loaded;
}

int32_t* World::alloc(int rank, size_t elements) {
  void* address = nullptr;
  EXPECT_EQ(emu().memAlloc(context(rank), 0, elements * sizeof(int32_t), &address), ncclSuccess)
      << emu().lastError();
  memory_.emplace_back(context(rank), address);
  return static_cast<int32_t*>(address);
}

std::string World::sync(int rank) const {
  const ncclResult_t code = emu().streamSynchronize(context(rank), stream(rank));
  return code == ncclSuccess ? "" : emu().lastError();
}

std::string World::commError(int rank) const {
  ncclResult_t code = ncclSuccess;
  const char* text = nullptr;
  EXPECT_EQ(emu().commError(comm(rank), &code, &text), ncclSuccess);
  return code == ncclSuccess ? "" : text;
}

std::string World::report(int rank) const {
  std::vector<char> text(16 << 10);
  EXPECT_EQ(emu().commReport(comm(rank), text.data(), text.size()), ncclSuccess);
  return text.data();
}

ncclResult_t launch(void* comm, void* program, const Call& call, void* stream) {
  nccomLaunch_v1 launch{};
  launch.opCount = call.opCount;
  launch.collective = call.collective;
  launch.inputs = call.inputs.data();
  launch.outputs = call.outputs.data();
  launch.nInputs = static_cast<uint32_t>(call.inputs.size());
  launch.nOutputs = static_cast<uint32_t>(call.outputs.size());
  launch.scale = call.scale;
  launch.divisor = call.divisor;
  launch.signature = call.signature;
  launch.name = call.name.c_str();
  return emu().launch(comm, program, &launch, stream);
}

}  // namespace nccom::emu
