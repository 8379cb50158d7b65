// What one thread of the test does: drives its ranks through all rows of the table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "test/perf/buffer.h"
#include "test/perf/crew.h"
#include "test/perf/op.h"
#include "test/perf/options.h"
#include "test/perf/table.h"
#include "test/perf/watch.h"

namespace nccom::perf {

/// A rank that a thread drives. The thread owns all of it; Bench gives it buffers and a stream.
struct Member {
  int rank = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  ncclStream_t stream = nullptr;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  ncclRedOp_t redOp = ncclSum;  // of the row under way
};

/// What the threads of a process share.
struct Shared {
  const Options& options;
  const PerfOp& op;
  int nRanks;
  Crew& crew;
  PatternCache& patterns;
  Watch& watch;
  std::function<void(const Row&)> print;  // called by the first thread
};

/// What came of it; the same in every thread.
struct Outcome {
  uint64_t halves = 0;       // measured halves of rows
  uint64_t halvesWrong = 0;  // that had a wrong element on any rank
  double busBandwidths = 0;  // their sum, GB/s
};

class Bench {
 public:
  /// @param thread   index in its process
  /// @param members  this thread's ranks, with communicators
  Bench(const Shared& shared, int thread, std::span<Member> members)
      : shared_(shared), thread_(thread), members_(members) {}

  Result<Outcome> run();

 private:
  // The rows of one type, operator and root.
  struct Series {
    TypeName type;
    OperatorName op;
    int root;  // -1: the operation has none
  };
  // One size of it, and where.
  struct Point {
    const Series* series;
    Counts counts;
    bool inPlace;
  };

  std::vector<Series> allSeries() const;
  Status allocate();
  Status release();
  Status runSeries(const Series& series);
  Status runRow(const Series& series, size_t bytes);
  std::string describe(const Point& point) const;
  Result<Cell> runHalf(const Point& point);
  Result<double> measure(const Point& point);
  Result<uint64_t> check(const Point& point);
  Status prepareSeries(const Series& series);
  Status finishSeries(const Series& series);

  Status enqueue(const Point& point, int iteration);
  Status enqueueStep(const Point& point, int iteration, int step);
  Status wait();
  Status use(const Member& member);

  PatternKey keyOf(const Point& point) const;
  void fill(const Member& member, const Point& point, const Pattern& pattern) const;
  uint64_t compare(const Member& member, const Point& point, const Pattern& pattern);
  Difference compareKept(const Member& member, const Point& point, const Pattern& pattern,
                         size_t first, size_t elements) const;
  void explain(const Member& member, const Point& point, size_t element, uint64_t expected);

  const Shared& shared_;
  const int thread_;
  const std::span<Member> members_;
  Outcome outcome_;
  uint64_t planned_ = 0;  // halves of rows; 0: the run is endless
  uint64_t round_ = 0;    // counts checked operations: each has other data
  bool explained_ = false;
};

}  // namespace nccom::perf
