// Child processes for tests, and words between them and their parent. Fork while no other thread
// runs.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "plugins/device_emu/owned.h"

namespace nccom::emu {

// Words from one process to another, each with a bound on the wait.
class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (pipe(ends.data()) != 0) abort();
    from_ = OwnedFd(ends[0]);
    to_ = OwnedFd(ends[1]);
  }

  template <class T>
  void send(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 4096);
    if (write(to_.get(), &value, sizeof value) != sizeof value) abort();
  }

  template <class T>
  std::optional<T> receive(int timeoutMs = 20'000) {
    pollfd readable = {from_.get(), POLLIN, 0};
    T value;
    if (poll(&readable, 1, timeoutMs) != 1) return std::nullopt;
    if (read(from_.get(), &value, sizeof value) != sizeof value) return std::nullopt;
    return value;
  }

 private:
  OwnedFd from_;
  OwnedFd to_;
};

// Runs `body` in a child, whose exit status is 0 if body returns true. It does not outlive its
// parent, nor this object, nor a minute.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    succeeded();
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  /// Stops it; on return none of its threads runs.
  void stop() const {
    signal(SIGSTOP);
    int status = 0;
    while (waitpid(pid_, &status, WUNTRACED) == pid_ && !WIFSTOPPED(status)) {
    }
  }

  /// Waits for its end. Whether body returned true.
  bool succeeded() {
    int status = -1;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return false;
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
};

}  // namespace nccom::emu
