#include "support/run_command.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <utility>

namespace megatron::test {
namespace {

using megatron::FileDescriptor;

FileDescriptor memory_file(const char* name, std::string_view bytes = {}) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  MGT_CHECK(file.get() >= 0, std::strerror(errno));
  const auto size = static_cast<ssize_t>(bytes.size());
  MGT_CHECK(::pwrite(file.get(), bytes.data(), bytes.size(), 0) == size, std::strerror(errno));
  return file;
}

std::string contents(const FileDescriptor& file) {
  struct stat info = {};
  MGT_CHECK(::fstat(file.get(), &info) == 0, std::strerror(errno));
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    if (!command.environment.contains(std::string(line.substr(0, line.find('=')))))
      out.emplace_back(line);
  }
  for (const auto& [name, value] : command.environment)
    if (!value.empty()) out.push_back(text(name, "=", value));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (auto& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

pid_t spawn(Command& command, int input, int out, int err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  if (!command.folder.empty())
    ::posix_spawn_file_actions_addchdir_np(&actions, command.folder.c_str());
  auto environment = environment_of(command);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, command.argv.front().c_str(), &actions, nullptr,
                                  pointers(command.argv).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  MGT_CHECK(error == 0, text(command.argv.front(), ": ", std::strerror(error)));
  return pid;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  out << (o.signal != 0 ? "signal " : "exit ") << (o.signal != 0 ? o.signal : o.exit_code);
  return out << "\n--- stdout\n" << o.out << "--- stderr\n" << o.err << "---\n";
}

Process::Process(Command command)
    : command_(std::move(command)),
      end_(std::chrono::steady_clock::now() + command_.deadline),
      out_(memory_file("stdout")),
      err_(memory_file("stderr")) {
  const FileDescriptor input = memory_file("stdin", command_.input);
  pid_ = spawn(command_, input.get(), out_.get(), err_.get());
  exit_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  MGT_CHECK(exit_.get() >= 0, std::strerror(errno));
}

Process::~Process() {
  if (pid_ < 0) return;
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::send(int signal) const { ::kill(pid_, signal); }

bool Process::wait_until_ended(std::chrono::milliseconds limit) const {
  pollfd poll_exit{exit_.get(), POLLIN, 0};
  return ::poll(&poll_exit, 1, static_cast<int>(limit.count())) == 1;
}

std::string Process::title() const {
  std::string line;
  for (const auto& word : command_.argv) line += text(line.empty() ? "" : " ", word);
  return line;
}

bool Process::wait_for(std::string_view wanted) {
  for (bool ended = false;; ended = wait_until_ended(std::chrono::milliseconds(2))) {
    if (text(contents(out_), "\n", contents(err_)).find(wanted) != std::string::npos) return true;
    if (!ended && !late()) continue;
    ADD_FAILURE() << title() << "\n  " << (ended ? "ended" : "did not come") << " without printing "
                  << wanted << "\n"
                  << contents(out_) << contents(err_);
    return false;
  }
}

std::vector<pid_t> Process::children() const {
  std::vector<pid_t> out;
  const std::string path = text("/proc/", pid_, "/task/", pid_, "/children");
  for (bool ended = false; out.empty() && !ended && !late();) {
    std::ifstream list(path);
    for (pid_t child = 0; list >> child;) out.push_back(child);
    if (out.empty()) ended = wait_until_ended(std::chrono::milliseconds(1));
  }
  return out;
}

Outcome Process::finish() {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      end_ - std::chrono::steady_clock::now());
  if (!wait_until_ended(std::max(left, std::chrono::milliseconds(0)))) {
    ADD_FAILURE() << title() << "\n  did not end within " << command_.deadline.count()
                  << " s and was killed";
    send(SIGKILL);
  }
  int status = 0;
  MGT_CHECK(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, std::strerror(errno));
  Outcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = contents(out_);
  outcome.err = contents(err_);
  return outcome;
}

}  // namespace megatron::test
