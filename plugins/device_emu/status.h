// How the emulated device fails: a function that can fail returns Result<T>.
//
// The line that first knows of the error writes the message: the object, the value found, the value
// wanted. Callers pass it up with EMU_TRY; only the ABI's entry points and thread roots log it. The
// plugin keeps its own type because it sees nothing of libnccom but the installed headers.
#pragma once

#include <concepts>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include "include/nccl.h"

namespace nccom::emu {

struct Ok {
  bool operator==(const Ok&) const = default;
};

struct Error {
  ncclResult_t code;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  template <std::convertible_to<T> Value>  // implicit, so that `return value` works,
  Result(Value&& value) : state_(std::in_place_index<0>, std::forward<Value>(value)) {}  // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: and fail()

  bool ok() const { return state_.index() == 0; }
  const T& value() const& { return std::get<0>(state_); }
  T& value() & { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};
using Status = Result<Ok>;

/// Makes an Error; `format` is printf's. The text may be of any length.
[[gnu::format(printf, 2, 3)]] inline Error fail(ncclResult_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int length = vsnprintf(nullptr, 0, format, args);
  va_end(args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return Error{code, std::move(text)};
}

}  // namespace nccom::emu

// The value of `expr`, or return its error. One EMU_TRY to an expression (-Wshadow sees to it).
#define EMU_TRY(expr)                                         \
  __extension__({                                             \
    auto tryResult = (expr);                                  \
    if (!tryResult.ok()) return std::move(tryResult).error(); \
    std::move(tryResult).value();                             \
  })
