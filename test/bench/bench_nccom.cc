// libnccom under the benchmark. A call is queued and its stream synchronised, as a user who needs
// the result would.
//   --mode procs    a process for each rank, memory of ncclMemAlloc (the default)
//   --mode malloc   a process for each rank, plain memory
//   --mode threads  a thread of one process for each rank, memory of ncclMemAlloc
// NCCOM_PLATFORM is `host` unless set.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "include/nccl.h"
#include "include/nccom.h"
#include "test/bench/driver.h"
#include "test/bench/world.h"

namespace nccom::bench {
namespace {

void must(int rank, ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "rank %d: %s: %s: %s\n", rank, call, ncclGetErrorString(result),
          ncclGetLastError(nullptr));
  _Exit(1);
}

#define MUST(call) must(rank_, (call), #call)

class Nccom final : public Backend {
 public:
  Nccom(Meeting& meeting, const ncclUniqueId& id, int rank, bool ownMemory)
      : meeting_(meeting), rank_(rank), ownMemory_(ownMemory) {
    MUST(nccomSetDevice(rank));
    MUST(nccomStreamCreate(&stream_));
    meeting.meet();
    const double start = now();
    MUST(ncclCommInitRank(&comm_, meeting.nRanks(), id, rank));
    initSeconds_ = now() - start;
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&token_), sizeof *token_));
    *token_ = 0;
  }

  ~Nccom() override {
    meeting_.meet();
    for (void* memory : allocated_)
      if (memory != nullptr) MUST(ncclMemFree(memory));
    MUST(ncclMemFree(token_));
    MUST(nccomStreamDestroy(stream_));
    MUST(ncclCommDestroy(comm_));
  }
  Nccom(const Nccom&) = delete;
  Nccom& operator=(const Nccom&) = delete;

  double initSeconds() const { return initSeconds_; }
  int rank() const override { return rank_; }
  int nRanks() const override { return meeting_.nRanks(); }
  void meet() override { meeting_.meet(); }
  double sum(double value) override { return meeting_.sum(rank_, value); }

  float* allocate(size_t bytes) override {
    if (!ownMemory_) return Backend::allocate(bytes);
    void* memory = nullptr;
    MUST(ncclMemAlloc(&memory, bytes));
    memset(memory, 0, bytes);
    allocated_[nAllocated_++] = memory;
    return static_cast<float*>(memory);
  }

  void allReduce(const float* in, float* out, size_t count) override {
    MUST(ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm_, stream_));
    finish();
  }

  void reduceScatter(const float* in, float* out, size_t count) override {
    MUST(ncclReduceScatter(in, out, count, ncclFloat, ncclSum, comm_, stream_));
    finish();
  }

  void allGather(const float* in, float* out, size_t count) override {
    MUST(ncclAllGather(in, out, count, ncclFloat, comm_, stream_));
    finish();
  }

  void broadcast(float* data, size_t count) override {
    MUST(ncclBroadcast(data, data, count, ncclFloat, 0, comm_, stream_));
    finish();
  }

  void allToAll(const float* in, float* out, size_t count) override {
    MUST(ncclAlltoAll(in, out, count, ncclFloat, comm_, stream_));
    finish();
  }

  void sendRecv(const float* in, int to, float* out, int from, size_t count) override {
    MUST(ncclGroupStart());
    MUST(ncclSend(in, count, ncclFloat, to, comm_, stream_));
    MUST(ncclRecv(out, count, ncclFloat, from, comm_, stream_));
    MUST(ncclGroupEnd());
    finish();
  }

  void send(const float* in, size_t count, int to) override {
    MUST(ncclSend(in, count, ncclFloat, to, comm_, stream_));
    finish();
  }

  void recv(float* out, size_t count, int from) override {
    MUST(ncclRecv(out, count, ncclFloat, from, comm_, stream_));
    finish();
  }

  /// The API has no barrier: an all-reduce of one element is one.
  void barrier() override { allReduce(token_, token_, 1); }

 private:
  void finish() { MUST(nccomStreamSynchronize(stream_)); }

  Meeting& meeting_;
  int rank_;
  bool ownMemory_;
  ncclComm_t comm_ = nullptr;
  ncclStream_t stream_ = nullptr;
  float* token_ = nullptr;
  double initSeconds_ = 0;
  void* allocated_[2] = {};
  int nAllocated_ = 0;
};

int runAll(const Options& options) {
  const bool threads = options.mode == "threads", plain = options.mode == "malloc";
  if (!threads && !plain && options.mode != "procs" && !options.mode.empty()) {
    fprintf(stderr, "--mode is '%s', want procs, malloc or threads\n", options.mode.c_str());
    return 2;
  }
  setenv("NCCOM_PLATFORM", "host", 0);
  Meeting& meeting = Meeting::make(options.nRanks);
  ncclUniqueId id;
  must(0, ncclGetUniqueId(&id), "ncclGetUniqueId");
  return runRanks(options.nRanks, threads, [&](int rank) {
    Nccom backend(meeting, id, rank, !plain);
    return run(backend, options, backend.initSeconds()) == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace nccom::bench

int main(int argc, char** argv) {
  return nccom::bench::runAll(nccom::bench::parse(argc, argv));
}
