// How internal code fails: a function that can fail returns Result<T>.
//
// The line that first knows of the error writes the message: the value found, the value wanted.
// Callers pass it up with TRY. Only api/ and thread roots log it.
#pragma once

#include <concepts>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include "include/nccl.h"

namespace nccom {

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
  Result(Value&& value) : state_(std::in_place_type<T>, std::forward<Value>(value)) {}  // NOLINT
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: and `return fail(...)` too

  bool ok() const { return state_.index() == 0; }
  const T& value() const& { return std::get<T>(state_); }
  T& value() & { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const Error& error() const& { return std::get<Error>(state_); }
  Error&& error() && { return std::get<Error>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};
using Status = Result<Ok>;

/// printf into a string of any length.
inline std::string formatted(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the caller has started it
  const int length = vsnprintf(nullptr, 0, format, args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

/// Makes an Error; `format` is printf's. The text may be of any length.
[[gnu::format(printf, 2, 3)]] inline Error fail(ncclResult_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = formatted(format, args);
  va_end(args);
  return Error{code, std::move(text)};
}

}  // namespace nccom

// The value of `expr`, or return its error. One TRY to an expression (-Wshadow sees to it).
#define TRY(expr)                                             \
  __extension__({                                             \
    auto tryResult = (expr);                                  \
    if (!tryResult.ok()) return std::move(tryResult).error(); \
    std::move(tryResult).value();                             \
  })
