// An MPI library under the benchmark, whichever this was compiled with. To be started by its
// mpirun, without binding: ranks pin themselves as the other programs' do.
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>

#include "test/bench/driver.h"

namespace nccom::bench {
namespace {

class Mpi final : public Backend {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &nRanks_);
  }

  int rank() const override { return rank_; }
  int nRanks() const override { return nRanks_; }
  void meet() override { MPI_Barrier(MPI_COMM_WORLD); }

  double sum(double value) override {
    double total = 0;
    MPI_Allreduce(&value, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
  }

  void allReduce(const float* in, float* out, size_t count) override {
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  void reduceScatter(const float* in, float* out, size_t count) override {
    MPI_Reduce_scatter_block(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void allGather(const float* in, float* out, size_t count) override {
    const bool inPlace = in == out + rank_ * count;
    MPI_Allgather(inPlace ? MPI_IN_PLACE : in, static_cast<int>(count), MPI_FLOAT, out,
                  static_cast<int>(count), MPI_FLOAT, MPI_COMM_WORLD);
  }

  void broadcast(float* data, size_t count) override {
    MPI_Bcast(data, static_cast<int>(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }

  void allToAll(const float* in, float* out, size_t count) override {
    MPI_Alltoall(in, static_cast<int>(count), MPI_FLOAT, out, static_cast<int>(count), MPI_FLOAT,
                 MPI_COMM_WORLD);
  }

  void sendRecv(const float* in, int to, float* out, int from, size_t count) override {
    MPI_Sendrecv(in, static_cast<int>(count), MPI_FLOAT, to, 0, out, static_cast<int>(count),
                 MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  void send(const float* in, size_t count, int to) override {
    MPI_Send(in, static_cast<int>(count), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  }

  void recv(float* out, size_t count, int from) override {
    MPI_Recv(out, static_cast<int>(count), MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  int rank_ = 0, nRanks_ = 0;
};

/// A variable of Open MPI's, or else of MPICH's launcher.
int launched(const char* openMpi, const char* mpich, int otherwise) {
  const char* text = getenv(openMpi);
  if (text == nullptr) text = getenv(mpich);
  return text == nullptr ? otherwise : atoi(text);
}

}  // namespace
}  // namespace nccom::bench

int main(int argc, char** argv) {
  using namespace nccom::bench;
  const Options options = parse(argc, argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank is left spinning when its launcher is killed
  pin(launched("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0),
      launched("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", CPU_SETSIZE + 1));
  const double start = now();
  MPI_Init(&argc, &argv);
  const double initSeconds = now() - start;
  size_t wrong = 0;
  {
    Mpi backend;
    wrong = run(backend, options, initSeconds);
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
