// Lines of memory that move between cores.
#pragma once

namespace nccom::emu {

/// Takes a line from those who have read it, while the caller goes on. In words of its own: what
/// the compiler knows as a prefetch it leaves out of a function that does nothing else, and it does
/// not say that the line will be written.
inline void fetchToWrite(const void* line) {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Gets a line that is going to be read.
inline void fetchToRead(const void* line) {
#ifdef __x86_64__
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 0);
#endif
}

/// Lets the core do something else between two looks at a line.
inline void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace nccom::emu
