// Runs the built programs as a user would and looks at what they print.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace nccom::test {

using Env = std::map<std::string, std::string>;

struct Outcome {
  int status =
      -1;  // exit status; 128 + signal if killed; -1 if it had to be killed at the deadline
  std::string output;  // stdout and stderr
  double seconds = 0;
};

/// The build folder under test: LIBNCCOM_TEST_BUILD, or "build".
std::string buildDir();

/// A started program; killed with all its children when it goes out of scope.
class Child {
 public:
  Child(const std::vector<std::string>& command, const Env& env);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Waits for its end, `seconds` at most, and returns all that it printed.
  Outcome wait(double seconds);

 private:
  bool readSome(int timeoutMs);

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string output_;
};

/// Starts a program, waits for it. `command` is split at spaces; "bin/X" is taken from the build
/// folder.
Outcome run(const std::string& command, const Env& env = {}, double seconds = 120);

/// `run` of an MPI job; nothing but a skip where no mpirun is installed: see haveMpi().
bool haveMpi();
Outcome mpirun(int nRanks, const std::string& command, const Env& env = {}, double seconds = 120);

/// Lines of a table that are results, not comments.
std::vector<std::string> rows(const std::string& output);

bool contains(const std::string& text, const std::string& part);

}  // namespace nccom::test
