// Options of the command line that take one number. What is no such number, or out of range, is
// refused; CLI11 alone would clamp it, wrap it round, or take "nan".
#pragma once

#include <CLI/App.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "megatron/status.hpp"

namespace megatron::cli {

// A bound that says nothing is not printed.
inline constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();
inline constexpr double kFinite = std::numeric_limits<double>::max();

// what(): which numbers the option takes.
class WrongNumber : public CLI::ValidationError {
 public:
  WrongNumber(std::string fact, std::string cause)
      : CLI::ValidationError(std::move(cause)), fact_(std::move(fact)) {}
  const std::string& fact() const { return fact_; }

 private:
  std::string fact_;
};

namespace detail {
CLI::Option* add_integer(CLI::App& app, const std::string& name, std::function<void(int64_t)> set,
                         int64_t min, int64_t max, const std::string& help);
}

// Sets `into`, which outlives the parse, to an integer of min to max.
template <std::integral T>
CLI::Option* add_integer(CLI::App& app, const std::string& name, T& into, int64_t min, int64_t max,
                         const std::string& help) {
  MGT_CHECK(std::in_range<T>(min) && std::in_range<T>(max), name);
  return detail::add_integer(
      app, name, [&into](int64_t value) { into = static_cast<T>(value); }, min, max, help);
}

// The same for a finite number of min to max.
CLI::Option* add_real(CLI::App& app, const std::string& name, double& into, double min, double max,
                      const std::string& help);

}  // namespace megatron::cli
