#include "cli/usage.hpp"

#include <string>
#include <vector>

#include "base/suggest.hpp"
#include "cli/numbers.hpp"

namespace megatron::cli {
namespace {

// The innermost subcommand that was recognised, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : chosen(*commands.front());
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

void append_option_names(const CLI::App& level, std::vector<std::string>& names) {
  for (const auto* option : level.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
}

// Of the subcommand, then the global ones.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  if (&chosen(app) != &app) {
    append_option_names(chosen(app), names);
    std::erase(names, "--help");  // the global list has it too
  }
  append_option_names(app, names);
  return names;
}

// Of the program and the subcommands that were recognised.
std::string full_name(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app.get_name()
                          : text(app.get_name(), " ", full_name(*commands.front()));
}

Status unknown(std::string_view what, const std::string& word,
               const std::vector<std::string>& names, const std::string& help) {
  const auto near = near_names(word, names);
  return invalid_argument(text("unknown ", what, " '", word, "'"),
                          names.empty() ? "" : text("known: ", list_names(names, "")),
                          near.empty() ? help : text("did you mean ", list_names(near), "?"));
}

}  // namespace

Status explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string name = full_name(app);
  const auto commands = command_names(chosen(app));
  const std::string help = text("see `", name, " --help`");
  // What CLI11 could not place explains more than the error that it led to.
  for (const std::string& word : app.remaining(true)) {
    if (word.starts_with("-"))
      return unknown("option", word.substr(0, word.find('=')), option_names(app), help);
    if (!commands.empty()) return unknown("command", word, commands, help);
    return invalid_argument(text("unexpected argument '", word, "'"),
                            text("`", name, "` has no place for it"), help);
  }
  if (!commands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return invalid_argument("no command given", text("known: ", list_names(commands, "")), help);
  if (const auto* wrong = dynamic_cast<const WrongNumber*>(&error))
    return invalid_argument(wrong->fact(), wrong->what(), help);
  return invalid_argument(text("wrong command line for `", name, "`"), error.what(), help);
}

}  // namespace megatron::cli
