// gloo under the benchmark: its TCP transport on the loopback interface, which is what it has
// between processes of a host. It has no public reduce-scatter.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "test/bench/driver.h"
#include "test/bench/world.h"

namespace nccom::bench {
namespace {

class Gloo final : public Backend {
 public:
  Gloo(Meeting& meeting, int rank, const std::string& folder) : meeting_(meeting), rank_(rank) {
    gloo::transport::tcp::attr address;
    address.hostname = "127.0.0.1";
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, meeting.nRanks());
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return rank_; }
  int nRanks() const override { return meeting_.nRanks(); }
  bool has(Op op) const override { return op != Op::ReduceScatter; }
  void meet() override { meeting_.meet(); }
  double sum(double value) override { return meeting_.sum(rank_, value); }

  void allReduce(const float* in, float* out, size_t count) override {
    using Reduce = void (*)(void*, const void*, const void*, size_t);
    gloo::AllreduceOptions options(context_);
    if (in != out) options.setInput(const_cast<float*>(in), count);
    options.setOutput(out, count);
    options.setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

  void reduceScatter(const float*, float*, size_t) override { std::terminate(); }

  void allGather(const float* in, float* out, size_t count) override {
    gloo::AllgatherOptions options(context_);
    if (in != out + rank_ * count) options.setInput(const_cast<float*>(in), count);
    options.setOutput(out, count * nRanks());
    gloo::allgather(options);
  }

  void broadcast(float* data, size_t count) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(data, count);
    options.setRoot(0);
    gloo::broadcast(options);
  }

  void allToAll(const float* in, float* out, size_t count) override {
    gloo::AlltoallOptions options(context_);
    options.setInput(const_cast<float*>(in), count * nRanks());
    options.setOutput(out, count * nRanks());
    gloo::alltoall(options);
  }

  void sendRecv(const float* in, int to, float* out, int from, size_t count) override {
    auto sent = bufferOf(in, count);
    auto received = bufferOf(out, count);
    sent->send(to, kSlot);
    received->recv(from, kSlot);
    sent->waitSend();
    received->waitRecv();
  }

  void send(const float* in, size_t count, int to) override {
    auto sent = bufferOf(in, count);
    sent->send(to, kSlot);
    sent->waitSend();
  }

  void recv(float* out, size_t count, int from) override {
    auto received = bufferOf(out, count);
    received->recv(from, kSlot);
    received->waitRecv();
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  static constexpr uint64_t kSlot = 1000;

  std::unique_ptr<gloo::transport::UnboundBuffer> bufferOf(const float* data, size_t count) {
    return context_->createUnboundBuffer(const_cast<float*>(data), count * sizeof(float));
  }

  Meeting& meeting_;
  int rank_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

int runRank(Meeting& meeting, int rank, const std::string& folder, const Options& options) {
  try {
    meeting.meet();
    const double start = now();
    Gloo backend(meeting, rank, folder);
    const size_t wrong = run(backend, options, now() - start);
    meeting.meet();
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    fprintf(stderr, "rank %d: gloo: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace
}  // namespace nccom::bench

int main(int argc, char** argv) {
  using namespace nccom::bench;
  const Options options = parse(argc, argv);
  Meeting& meeting = Meeting::make(options.nRanks);
  std::string folder = std::filesystem::temp_directory_path() / "bench_gloo_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    perror(folder.c_str());
    return 1;
  }
  const int status = runRanks(options.nRanks, false,
                              [&](int rank) { return runRank(meeting, rank, folder, options); });
  std::filesystem::remove_all(folder);
  return status;
}
