// Runs a program as a user would: arguments, folder, environment and input in; output, exit code or
// signal out. A program that does not end in time is killed and fails the test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/file.hpp"

namespace megatron::test {

struct Command {
  std::vector<std::string> argv;                   // argv[0] is the program's path
  std::string folder = {};                         // empty: the test's own
  std::map<std::string, std::string> environment;  // on top of the test's; "" removes a variable
  std::string input = {};                          // standard input, then its end
  std::chrono::seconds deadline{120};
};

struct Outcome {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string out, err;
};

// "exit 2", "signal 9", and both outputs: for the message of a failed expectation.
std::ostream& operator<<(std::ostream& out, const Outcome& outcome);

// A program that runs. The destructor kills what finish() did not wait for.
class Process {
 public:
  explicit Process(Command command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  // False, and a failed test, when the program ends or the deadline passes before it has printed
  // `text` on standard output or error.
  bool wait_for(std::string_view text);
  void send(int signal) const;
  // Processes that it has started and that have not ended; waits until there is one, and is empty
  // when the program ends before.
  std::vector<pid_t> children() const;
  Outcome finish();

 private:
  bool wait_until_ended(std::chrono::milliseconds limit) const;
  bool late() const { return std::chrono::steady_clock::now() >= end_; }
  std::string title() const;

  Command command_;
  std::chrono::steady_clock::time_point end_;
  // Outputs are files in memory: no pipe fills up, and a killed program's last words are there.
  megatron::FileDescriptor out_, err_, exit_;
  pid_t pid_ = -1;
};

inline Outcome run(Command command) { return Process(std::move(command)).finish(); }

}  // namespace megatron::test
