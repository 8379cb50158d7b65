// Entry point of the programs X_perf_mpi: the processes of MPI_COMM_WORLD.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "test/perf/program.h"

namespace nccom::perf {
namespace {

class MpiProcesses final : public Processes {
 public:
  MpiProcesses() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void broadcast(void* data, size_t bytes) override {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }

  std::vector<std::string> allGather(const std::string& text) override {
    const int length = static_cast<int>(text.size());
    std::vector<int> lengths(static_cast<size_t>(size_));
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> offsets;
    int total = 0;
    for (const int bytes : lengths) {
      offsets.push_back(total);
      total += bytes;
    }
    std::string all(static_cast<size_t>(total), '\0');
    MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                   MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (size_t process = 0; process < lengths.size(); process++) {
      texts.push_back(
          all.substr(static_cast<size_t>(offsets[process]), static_cast<size_t>(lengths[process])));
    }
    return texts;
  }

  double combine(double value, Combine how) override {
    const MPI_Op op = how == Combine::Sum ? MPI_SUM : how == Combine::Min ? MPI_MIN : MPI_MAX;
    double combined = 0;
    MPI_Allreduce(&value, &combined, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return combined;
  }

  [[noreturn]] void abort(int status) override {
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace
}  // namespace nccom::perf

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  // Any thread may be the one that speaks for its process, but only one at a time.
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    fprintf(stderr, "%s: this MPI gives threads no more than level %d: needs %d\n", argv[0],
            provided, MPI_THREAD_SERIALIZED);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  int status = 0;
  {
    nccom::perf::MpiProcesses processes;
    status = runProgram(nccom::perf::kPerfOp, processes, argc, argv);
  }
  MPI_Finalize();
  return status;
}
