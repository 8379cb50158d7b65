// What all benchmark programs share, so that every library is measured by the same code: the
// operations, their buffers and checks, the timing, the figures and how they are printed.
//
// One case is an operation of one size. It is run once and its result compared element by element;
// then, on zeros, batches of calls warm it up until a batch is long enough to foretell how many
// calls fill the budget; then come the repetitions: a barrier, that many calls, and the time of
// each call, averaged over the ranks. Printed are the median, the 10th percentile and the minimum
// of the repetitions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nccom::bench {

/// `bytes` of a case is the larger of a rank's two buffers. The factors that make bus bandwidth of
/// bytes per second are those of nccl-tests:
///   all_reduce                              2(n-1)/n
///   reduce_scatter, all_gather, alltoall    (n-1)/n
///   broadcast, sendrecv, pingpong           1
enum class Op {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  AllToAll,
  SendRecv,  ///< a ring: each rank sends to the next
  PingPong,  ///< of 2 ranks; a time is that of half a round trip
  Barrier,
};

struct Options {
  std::string name = "?";  ///< the first column: which program, in which form
  std::string mode;        ///< for programs that have several
  int nRanks = 2;          ///< for programs that start their ranks themselves
  std::vector<Op> ops;
  std::vector<size_t> sizes;
  bool inPlace = false;  ///< AllReduce and AllGather; Broadcast always is
  double budget = 2e-3;  ///< seconds of a repetition: shorter than a time slice
  int repetitions = 15;
  double limit = 1;  ///< seconds of a case; an operation's larger sizes are left out beyond it
};

/// The command line as options; prints the usage and exits if it is wrong.
Options parse(int argc, char** argv);

/// A library under test, as one rank sees it. Calls return when the rank's buffers may be used
/// again. A failure ends the process.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int nRanks() const = 0;
  virtual bool has(Op) const { return true; }

  /// Zeroed memory for the user's buffers, of the kind that suits the library.
  virtual float* allocate(size_t bytes);

  /// Outside the timed part: all ranks meet; the sum of all ranks' values, the same on all.
  virtual void meet() = 0;
  virtual double sum(double value) = 0;

  /// A backend may know several ways of a case: the driver times each of 0..nWays()-1 that
  /// choose() accepts, on all ranks alike, and keeps the quickest.
  virtual int nWays() const { return 1; }
  virtual bool choose(int /*way*/, Op, size_t /*bytes*/) { return true; }

  virtual void allReduce(const float* in, float* out, size_t count) = 0;
  virtual void reduceScatter(const float* in, float* out, size_t countOfRank) = 0;
  virtual void allGather(const float* in, float* out, size_t countOfRank) = 0;
  virtual void broadcast(float* data, size_t count) = 0;  ///< from rank 0
  virtual void allToAll(const float* in, float* out, size_t countOfPair) = 0;
  virtual void sendRecv(const float* in, int to, float* out, int from, size_t count) = 0;
  virtual void send(const float* in, size_t count, int to) = 0;
  virtual void recv(float* out, size_t count, int from) = 0;
  virtual void barrier() = 0;
};

/// Runs all cases; rank 0 prints a line for each, and a line `init` if `initSeconds` is not 0:
///   name,op,ranks,bytes,place,calls,repetitions,median_us,p10_us,min_us,algbw,busbw,wrong
/// Returns the number of wrong elements on all ranks.
size_t run(Backend& backend, const Options& options, double initSeconds = 0);

double now();

/// Cores that this process may use.
int nCores();

/// Keeps the calling thread on a core of its own, if there is one for each rank.
void pin(int rank, int nRanks);

/// What to do in the `polls`th turn of a loop that waits for another rank.
void relax(int polls, bool coreEach);

}  // namespace nccom::bench
