#include "integration/host.hpp"

#include <fstream>
#include <sstream>
#include <utility>

namespace megatron::test {

Command host_command(std::vector<std::string> arguments, std::string folder, std::string program) {
  arguments.insert(arguments.begin(), program.empty() ? kHost : std::move(program));
  return {.argv = std::move(arguments),
          .folder = std::move(folder),
          .environment = {{"HOME", ""},
                          {"XDG_DATA_HOME", ""},
                          {"MEGATRON_PLUGIN_PATH", ""},
                          {"MEGATRON_PLUGIN_PATH_ONLY", ""}}};
}

Outcome host(std::vector<std::string> arguments, std::string folder) {
  return run(host_command(std::move(arguments), std::move(folder)));
}

std::string read_file(const std::string& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  MGT_CHECK(out.flush().good(), path);
}

std::string replaced(std::string in, std::string_view from, std::string_view to) {
  for (size_t at = in.find(from); at != std::string::npos; at = in.find(from, at + to.size()))
    in.replace(at, from.size(), to);
  return in;
}

}  // namespace megatron::test
