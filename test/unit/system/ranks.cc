#include "test/unit/system/ranks.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nccom::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A port that nobody listens on now.
int freePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

void must(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  printf("FAILED %s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  fflush(stdout);
  _exit(kFailedStatus);
}

Ranks::Ranks(int nRanks, const Env& env, const Body& body) : processes_(nRanks) {
  const std::string root = "127.0.0.1:" + std::to_string(freePort());
  const std::string plugin = buildDir() + "/lib/libnccom-device-emu.so";
  const pid_t parent = getpid();
  fflush(nullptr);
  for (int rank = 0; rank < nRanks; ++rank) {
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) return;
    processes_[rank].pid = fork();
    if (processes_[rank].pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      dup2(pipes[1], STDOUT_FILENO);
      dup2(pipes[1], STDERR_FILENO);
      setenv("NCCL_COMM_ID", root.c_str(), 1);
      setenv("NCCOM_DEVICE_PLUGIN", plugin.c_str(), 1);
      for (const auto& [name, value] : env) {
        const char* half = rank < nRanks / 2 ? "h0" : "h1";
        setenv(name.c_str(), value == kHalves ? half : value.c_str(), 1);
      }
      ncclUniqueId id;
      MUST(ncclGetUniqueId(&id));
      const int status = body(rank, id);
      fflush(stdout);
      _exit(status);
    }
    close(pipes[1]);
    processes_[rank].fd = pipes[0];
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
  }
}

Ranks::~Ranks() {
  for (Process& process : processes_) {
    if (process.pid > 0 && !process.ended) {
      ::kill(process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
    }
    if (process.fd >= 0) close(process.fd);
  }
}

void Ranks::kill(int rank, int signal) const {
  ::kill(processes_[rank].pid, signal);
}

void Ranks::readAll(int timeoutMs) {
  std::vector<pollfd> fds;
  for (const Process& process : processes_)
    fds.push_back({process.fd, POLLIN, 0});
  poll(fds.data(), fds.size(), timeoutMs);
  for (Process& process : processes_) {
    char buffer[65536];
    ssize_t n = 0;
    while (process.fd >= 0 && (n = read(process.fd, buffer, sizeof buffer)) > 0) {
      process.output.append(buffer, static_cast<size_t>(n));
    }
    if (process.fd >= 0 && n == 0) {
      close(process.fd);
      process.fd = -1;
    }
  }
}

void Ranks::reap() {
  for (Process& process : processes_) {
    int status = 0;
    if (process.ended || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.ended = true;
    process.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

bool Ranks::waitFor(int rank, const std::string& text, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < until) {
    readAll(20);
    if (processes_[rank].output.find(text) != std::string::npos) return true;
  }
  return false;
}

std::vector<Outcome> Ranks::wait(double seconds) {
  const auto start = Clock::now();
  const auto until = start + std::chrono::duration<double>(seconds);
  std::vector<Outcome> outcomes(processes_.size());
  const auto running = [&] {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const Process& p) { return !p.ended; });
  };
  while (running() && Clock::now() < until) {
    readAll(20);
    reap();
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].ended && outcomes[i].seconds == 0) {
        outcomes[i].seconds = std::chrono::duration<double>(Clock::now() - start).count();
      }
    }
  }
  readAll(0);
  for (size_t i = 0; i < processes_.size(); ++i) {
    outcomes[i].status = processes_[i].ended ? processes_[i].status : -1;
    outcomes[i].output = processes_[i].output;
  }
  return outcomes;
}

std::vector<std::string> shmNames() {
  std::vector<std::string> names;
  DIR* dir = opendir("/dev/shm");
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace nccom::test
