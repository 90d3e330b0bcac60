#include "cli/numbers.hpp"

#include <charconv>

namespace megatron::cli {
namespace {

// Adds an option whose word must be a T of min to max, as from_chars reads it.
template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& name, std::function<void(T)> set, T min,
                        T max, std::string_view noun, const std::string& help) {
  const bool bounded = max < std::numeric_limits<T>::max();
  const std::string range = bounded ? text("from ", min, " to ", max) : text("of at least ", min);
  const std::string cause = text("it must be ", noun, " ", range);
  const auto read = [=](const CLI::results_t& words) {
    const std::string& word = words.front();
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool number = error != std::errc::invalid_argument && end == word.data() + word.size();
    if (!number) throw WrongNumber(text(name, " ", word, " is not ", noun), cause);
    // NaN is in no range.
    if (error == std::errc::result_out_of_range || !(value >= min && value <= max))
      throw WrongNumber(text(name, " ", word, " is out of range"), cause);
    set(value);
    return true;
  };
  return app.add_option(name, read, help)->type_name("N");
}

}  // namespace

CLI::Option* detail::add_integer(CLI::App& app, const std::string& name,
                                 std::function<void(int64_t)> set, int64_t min, int64_t max,
                                 const std::string& help) {
  return add_number<int64_t>(app, name, std::move(set), min, max, "an integer", help);
}

CLI::Option* add_real(CLI::App& app, const std::string& name, double& into, double min, double max,
                      const std::string& help) {
  return add_number<double>(
      app, name, [&into](double value) { into = value; }, min, max, "a number", help);
}

}  // namespace megatron::cli
