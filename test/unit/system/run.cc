#include "test/unit/system/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

namespace nccom::test {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

std::vector<std::string> resolve(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word.rfind("bin/", 0) == 0) word = buildDir() + "/" + word;
  }
  return words;
}

[[noreturn]] void execChild(const std::vector<std::string>& command, const Env& env, int out) {
  setpgid(0, 0);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  for (const auto& [name, value] : env)
    setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  perror(argv[0]);
  _exit(127);
}

}  // namespace

std::string buildDir() {
  const char* dir = getenv("LIBNCCOM_TEST_BUILD");
  return dir != nullptr ? dir : "build";
}

Child::Child(const std::vector<std::string>& command, const Env& env) {
  const std::vector<std::string> resolved = resolve(command);
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) execChild(resolved, env, pipes[1]);
  close(pipes[1]);
  fd_ = pipes[0];
}

Child::~Child() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
}

bool Child::readSome(int timeoutMs) {
  pollfd entry{fd_, POLLIN, 0};
  if (poll(&entry, 1, timeoutMs) <= 0) return true;
  char buffer[65536];
  const ssize_t n = read(fd_, buffer, sizeof buffer);
  if (n > 0) output_.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

Outcome Child::wait(double seconds) {
  const auto start = Clock::now();
  Outcome outcome;
  int status = 0;
  bool open = true;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (since(start) > seconds) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      pid_ = -1;
      outcome.output =
          output_ + "\n(killed: still running after " + std::to_string(seconds) + " s)\n";
      outcome.seconds = since(start);
      return outcome;
    }
    if (open) {
      open = readSome(20);
    } else {
      usleep(10000);
    }
  }
  const auto drained = Clock::now();
  while (open && since(drained) < 2)
    open = readSome(100);
  kill(-pid_, SIGKILL);  // what it left behind in its group
  pid_ = -1;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.output = output_;
  outcome.seconds = since(start);
  return outcome;
}

Outcome run(const std::string& command, const Env& env, double seconds) {
  Child child(split(command), env);
  return child.wait(seconds);
}

bool haveMpi() {
  return system("command -v mpirun >/dev/null 2>&1") == 0;
}

Outcome mpirun(int nRanks, const std::string& command, const Env& env, double seconds) {
  return run(
      "mpirun --allow-run-as-root --oversubscribe -np " + std::to_string(nRanks) + " " + command,
      env, seconds);
}

std::vector<std::string> rows(const std::string& output) {
  std::istringstream in(output);
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line[first] >= '0' && line[first] <= '9')
      found.push_back(line);
  }
  return found;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace nccom::test
