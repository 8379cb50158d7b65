// What every thread of the library does first.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace nccom {

/// Names the calling thread (15 characters) and blocks all signals that can be blocked: handlers
/// are the application's and run on its threads.
inline void becomeInternalThread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
    sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), name);
}

}  // namespace nccom
