#include "launch/local_launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>

#include "launch/store_server.hpp"

extern char** environ;

namespace megatron::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMs = 100;
constexpr size_t kKeptLines = 60;  // of a rank's stderr, for the last word

struct Stream {
  FileDescriptor pipe;
  std::string pending;  // an unfinished line
  bool error = false;   // stderr
};

struct Rank {
  pid_t pid = -1;
  Stream out, err;
  std::vector<std::string> errors;  // last lines of stderr
  std::optional<int> status;        // of waitpid
};

std::string random_token() {
  std::random_device device;
  std::string out;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (int i = 0; i < 32; ++i) out += kHex[device() % 16];
  return out;
}

// "exited with code 3", "was killed by signal 9 (Killed)"
std::string describe(int status) {
  if (WIFSIGNALED(status))
    return text("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return text("exited with code ", WEXITSTATUS(status));
}

// Holds back the signals that ask to stop, in the calling thread and in what it starts. A rank
// takes them when it can stop in order; until then they wait for it.
class StopSignalsHeld {
 public:
  StopSignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : kStopSignals) sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~StopSignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignalsHeld(const StopSignalsHeld&) = delete;
  StopSignalsHeld& operator=(const StopSignalsHeld&) = delete;

 private:
  sigset_t before_;
};

class Launcher {
 public:
  explicit Launcher(const LocalLaunch& launch) : launch_(launch), ranks_(launch.ranks) {}

  Status run() {
    MGT_ASSIGN_OR_RETURN(listener_, listen_on("127.0.0.1", 0));
    MGT_ASSIGN_OR_RETURN(port_, port_of(listener_));
    token_ = random_token();
    if (Status status = start_all(); !status.ok()) {
      kill_all(SIGKILL);
      while (!all_ended()) pump();
      return status;
    }
    listener_ = FileDescriptor();  // rank 0 has it
    while (!all_ended() || any_open()) {
      pump();
      watch();
    }
    return verdict();
  }

 private:
  Status start_all() {
    const StopSignalsHeld held;
    for (uint32_t r = 0; r < launch_.ranks; ++r) MGT_RETURN_IF_ERROR(start(r));
    return {};
  }

  Status start(uint32_t r) {
    Rank& rank = ranks_[r];
    int out[2];
    int err[2];
    if (::pipe2(out, O_CLOEXEC) != 0)
      return Status(Code::resource_exhausted,
                    text("cannot start rank ", r, ": ", std::strerror(errno)));
    rank.out.pipe = FileDescriptor(out[0]);
    FileDescriptor out_end(out[1]);
    if (::pipe2(err, O_CLOEXEC) != 0)
      return Status(Code::resource_exhausted,
                    text("cannot start rank ", r, ": ", std::strerror(errno)));
    rank.err.pipe = FileDescriptor(err[0]);
    rank.err.error = true;
    FileDescriptor err_end(err[1]);
    ::fcntl(out[0], F_SETFL, O_NONBLOCK);
    ::fcntl(err[0], F_SETFL, O_NONBLOCK);

    // Everything that allocates happens before the fork.
    const auto variables = environment(r);
    std::vector<char*> envp;
    for (const auto& v : variables) envp.push_back(const_cast<char*>(v.c_str()));
    envp.push_back(nullptr);
    std::vector<char*> argv;
    for (const auto& a : launch_.command) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0)
      return Status(Code::resource_exhausted,
                    text("cannot start rank ", r, ": ", std::strerror(errno)));
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans, whatever happens to the launcher
      if (::getppid() != parent) ::_exit(1);
      ::setpgid(0, 0);  // a terminal's Ctrl-C reaches the launcher, which passes it on once
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      if (r == 0) ::fcntl(listener_.get(), F_SETFD, 0);
      ::execve("/proc/self/exe", argv.data(), envp.data());
      ::_exit(127);
    }
    rank.pid = pid;
    return {};
  }

  std::vector<std::string> environment(uint32_t r) const {
    std::vector<std::string> out = {text("RANK=", r),
                                    text("WORLD_SIZE=", launch_.ranks),
                                    text("LOCAL_RANK=", r),
                                    text("LOCAL_WORLD_SIZE=", launch_.ranks),
                                    "MASTER_ADDR=127.0.0.1",
                                    text("MASTER_PORT=", port_),
                                    text("MEGATRON_TOKEN=", token_)};
    if (r == 0) out.push_back(text(kListenerVariable, "=", listener_.get()));
    const auto overridden = [&](std::string_view entry) {
      return std::any_of(out.begin(), out.end(), [&](const std::string& v) {
        return entry.substr(0, entry.find('=')) == v.substr(0, v.find('='));
      });
    };
    std::vector<std::string> all;
    for (char** e = environ; *e != nullptr; ++e) {
      if (!overridden(*e)) all.emplace_back(*e);
    }
    all.insert(all.end(), out.begin(), out.end());
    return all;
  }

  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& r) { return r.pid < 0 || r.status.has_value(); });
  }
  bool any_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
      return r.out.pipe.get() >= 0 || r.err.pipe.get() >= 0;
    });
  }

  // Forwards what ranks print and collects those that ended.
  void pump() {
    std::vector<pollfd> fds;
    std::vector<std::pair<Rank*, Stream*>> streams;
    for (Rank& rank : ranks_) {
      for (Stream* s : {&rank.out, &rank.err}) {
        if (s->pipe.get() < 0) continue;
        fds.push_back({s->pipe.get(), POLLIN, 0});
        streams.emplace_back(&rank, s);
      }
    }
    ::poll(fds.data(), fds.size(), kPollMs);
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) read(*streams[i].first, *streams[i].second);
    }
    for (Rank& rank : ranks_) {
      int status = 0;
      if (rank.pid > 0 && !rank.status && ::waitpid(rank.pid, &status, WNOHANG) == rank.pid)
        ended(rank, status);
    }
  }

  void read(Rank& rank, Stream& stream) {
    char bytes[65536];
    for (;;) {
      const ssize_t n = ::read(stream.pipe.get(), bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) {
        if (!stream.pending.empty()) print(rank, stream, std::exchange(stream.pending, {}));
        stream.pipe = FileDescriptor();
        return;
      }
      stream.pending.append(bytes, static_cast<size_t>(n));
    }
    for (size_t end = 0; (end = stream.pending.find('\n')) != std::string::npos;) {
      print(rank, stream, stream.pending.substr(0, end));
      stream.pending.erase(0, end + 1);
    }
  }

  void print(Rank& rank, const Stream& stream, const std::string& line) {
    if (stream.error) {
      rank.errors.push_back(line);
      if (rank.errors.size() > kKeptLines) rank.errors.erase(rank.errors.begin());
    }
    std::FILE* to = stream.error ? stderr : stdout;
    std::fprintf(to, "[%d] %s\n", static_cast<int>(&rank - ranks_.data()), line.c_str());
    std::fflush(to);
  }

  void ended(Rank& rank, int status) {
    rank.status = status;
    if (status == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kInterrupted) {
      interrupted_ = true;
      return;
    }
    const bool follower = WIFEXITED(status) && WEXITSTATUS(status) == kStoppedByAnotherRank;
    // The first rank that failed by itself; a follower only until such a one is found.
    if (culprit_ == nullptr || (culprit_follows_ && !follower)) {
      culprit_ = &rank;
      culprit_follows_ = follower;
    }
    if (!deadline_) deadline_ = Clock::now() + launch_.grace;
  }

  void watch() {
    if (launch_.stop != nullptr && launch_.stop->load() && !asked_to_stop_) {
      asked_to_stop_ = true;
      kill_all(SIGTERM);
    }
    if (deadline_ && Clock::now() > *deadline_) {
      kill_all(SIGKILL);
      deadline_.reset();
    }
  }

  void kill_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0 && !rank.status) ::kill(rank.pid, signal);
    }
  }

  Status verdict() const {
    if (culprit_ == nullptr)
      return interrupted_ ? Status(Code::cancelled, "") : Status();  // rank 0 has said it
    const auto index = culprit_ - ranks_.data();
    std::string message = text("rank ", index, " ", describe(*culprit_->status));
    if (culprit_follows_) message = text("every rank stopped; the first was rank ", index);
    // Its own last error, whole: from the last line that begins one.
    const auto& lines = culprit_->errors;
    const auto begins = [](const std::string& line) { return line.starts_with("error:"); };
    const auto last = std::find_if(lines.rbegin(), lines.rend(), begins);
    for (auto it = last == lines.rend() ? lines.end() : last.base() - 1; it != lines.end(); ++it)
      message += "\n  " + *it;
    // A rank whose command line or manifest is wrong makes the whole command wrong.
    const bool usage = WIFEXITED(*culprit_->status) && WEXITSTATUS(*culprit_->status) == 2;
    return Status(usage ? Code::invalid_argument : Code::internal, message);
  }

  const LocalLaunch& launch_;
  std::vector<Rank> ranks_;
  FileDescriptor listener_;
  uint16_t port_ = 0;
  std::string token_;
  Rank* culprit_ = nullptr;
  bool culprit_follows_ = false;
  bool asked_to_stop_ = false;
  bool interrupted_ = false;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

Status launch_local(const LocalLaunch& launch) { return Launcher(launch).run(); }

}  // namespace megatron::launch
