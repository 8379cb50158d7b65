#include "test/perf/size.h"

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>

namespace nccom::perf {
namespace {

constexpr uint64_t kLimit = uint64_t{1} << 63;

// The power of 1024 of a unit "", "B", "K", "Ki", "KB", "KiB", ... in any case.
std::optional<int> unitPower(std::string_view unit) {
  constexpr std::string_view kUnits = "kmgt";
  const auto lower = [&](size_t at) { return std::tolower(static_cast<unsigned char>(unit[at])); };
  size_t at = 0;
  int power = 0;
  if (at < unit.size()) {
    const size_t found = kUnits.find(static_cast<char>(lower(at)));
    if (found != std::string_view::npos) {
      power = static_cast<int>(found) + 1;
      at++;
      if (at < unit.size() && lower(at) == 'i') at++;
    }
  }
  if (at < unit.size() && lower(at) == 'b') at++;
  if (at < unit.size()) return std::nullopt;
  return power;
}

// whole.fraction * 1024^power, if that is a whole number below kLimit.
std::optional<uint64_t> scaled(std::string_view whole, std::string_view fraction, int power) {
  while (!fraction.empty() && fraction.back() == '0')
    fraction.remove_suffix(1);
  if (fraction.size() > 20) return std::nullopt;  // more than any unit can make whole
  __extension__ typedef unsigned __int128 Wide;
  const Wide unit = Wide{1} << (10 * power);
  Wide bytes = 0;
  for (const char digit : whole) {
    bytes = bytes * 10 + static_cast<unsigned>(digit - '0');
    if (bytes >= kLimit) return std::nullopt;
  }
  bytes *= unit;
  // Long division: a digit of the fraction is worth unit/10, unit/100, ...; at the end nothing of
  // the unit may be left over.
  Wide numerator = 0;
  Wide denominator = 1;
  for (const char digit : fraction) {
    numerator = numerator * 10 + static_cast<unsigned>(digit - '0');
    denominator *= 10;
  }
  numerator *= unit;
  if (numerator % denominator != 0) return std::nullopt;
  bytes += numerator / denominator;
  if (bytes >= kLimit) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace

Result<size_t> parseSize(std::string_view text) {
  const auto isDigit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  size_t at = 0;
  while (isDigit(at))
    at++;
  const std::string_view whole = text.substr(0, at);
  std::string_view fraction;
  if (at < text.size() && text[at] == '.' && isDigit(at + 1)) {
    const size_t start = ++at;
    while (isDigit(at))
      at++;
    fraction = text.substr(start, at - start);
  }
  while (at < text.size() && text[at] == ' ')
    at++;
  const std::optional<int> power = unitPower(text.substr(at));
  if (whole.empty() || !power) {
    return fail(ncclInvalidArgument,
                "'%s' is not a size: expected a number of bytes, such as 8, 1.5K, 64M or 1GiB",
                std::string(text).c_str());
  }
  const std::optional<uint64_t> bytes = scaled(whole, fraction, *power);
  if (!bytes) {
    return fail(ncclInvalidArgument,
                "'%s' is not a size: expected a whole number of bytes below 2^63",
                std::string(text).c_str());
  }
  return static_cast<size_t>(*bytes);
}

std::vector<size_t> sizesOf(const SizeRange& range, size_t typeBytes) {
  std::vector<size_t> sizes;
  size_t size = range.minBytes;
  while (size <= range.maxBytes) {
    sizes.push_back(size);
    if (range.factor > 1) {
      if (size > range.maxBytes / range.factor) break;  // beyond maxBytes, or beyond size_t
      size = size == 0 ? typeBytes : size * range.factor;
    } else {
      if (range.stepBytes == 0 || range.stepBytes > range.maxBytes - size) break;
      size += range.stepBytes;
    }
  }
  return sizes;
}

}  // namespace nccom::perf
