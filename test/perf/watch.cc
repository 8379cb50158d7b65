#include "test/perf/watch.h"

#include <cstdio>

namespace nccom::perf {
namespace {

constexpr std::chrono::milliseconds kPeriod{200};
constexpr std::chrono::seconds kPatience{2};  // a shorter run needs no indicator

}  // namespace

Watch::Watch(Failure& failure, bool shows, int timeoutSeconds)
    : failure_(failure), shows_(shows), timeoutSeconds_(timeoutSeconds) {
  if (shows_ || timeoutSeconds_ > 0) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    clear();
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::begin(const std::string& task) {
  const std::lock_guard lock(mutex_);
  busy_ = true;
  task_ = task;
  begun_ = Clock::now();
}

void Watch::idle() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  clear();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kPeriod, [this] { return over_; }))
    look();
}

void Watch::look() {
  if (!busy_) return;
  const Clock::time_point now = Clock::now();
  if (timeoutSeconds_ > 0 && now - begun_ > std::chrono::seconds(timeoutSeconds_)) {
    clear();
    failure_.stop(
        fail(ncclTimeout, "%s: not done after %d s (-T)", task_.c_str(), timeoutSeconds_));
  }
  if (shows_ && now - started_ > kPatience) {
    const std::chrono::duration<double> taken = now - begun_;
    fprintf(stderr, "\r\033[K%s, %.1f s", task_.c_str(), taken.count());
    fflush(stderr);
    shown_ = true;
  }
}

void Watch::clear() {
  if (!shown_) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  shown_ = false;
}

}  // namespace nccom::perf
