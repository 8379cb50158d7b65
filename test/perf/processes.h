// The processes that run a test together. Calls are made by one thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nccom::perf {

enum class Combine { Sum, Min, Max };

class Processes {
 public:
  virtual ~Processes() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;
  /// Copies `bytes` at `data` from process 0 to all.
  virtual void broadcast(void* data, size_t bytes) = 0;
  /// What each process says, by rank.
  virtual std::vector<std::string> allGather(const std::string& text) = 0;
  virtual double combine(double value, Combine how) = 0;

  /// Ends all processes at once with this exit status, whatever their threads are doing.
  [[noreturn]] virtual void abort(int status) = 0;
};

/// One process alone.
class OneProcess final : public Processes {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void broadcast(void* /*data*/, size_t /*bytes*/) override {}
  std::vector<std::string> allGather(const std::string& text) override { return {text}; }
  double combine(double value, Combine /*how*/) override { return value; }
  [[noreturn]] void abort(int status) override;
};

}  // namespace nccom::perf
