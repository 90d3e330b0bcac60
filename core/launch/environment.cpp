#include "launch/environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "megatron/philox.hpp"

namespace megatron::launch {
namespace {

constexpr uint16_t kFirstPort = 20000;  // of those that are derived from a job's id
constexpr uint16_t kPorts = 20000;

// Reads variables and remembers the first that is missing or malformed.
class Reader {
 public:
  explicit Reader(const GetEnv& env, std::string_view source) : env_(env), source_(source) {}

  bool has(std::string_view name) const { return env_(name).has_value(); }
  std::string text_of(std::string_view name, std::string_view fallback = {}) const {
    return env_(name).value_or(std::string(fallback));
  }
  uint32_t number(std::string_view name, uint32_t least, uint32_t most) {
    const auto value = env_(name);
    if (!value) {
      fail(text("environment variable ", name, " is missing"));
      return least;
    }
    uint64_t out = 0;
    const auto parsed = std::from_chars(value->data(), value->data() + value->size(), out);
    if (parsed.ec == std::errc::invalid_argument || parsed.ptr != value->data() + value->size()) {
      fail(text("environment variable ", name, " is '", *value, "', not a whole number"));
    } else if (parsed.ec != std::errc() || out < least || out > most) {
      fail(text("environment variable ", name, " is ", *value, ", and must lie in ", least, " to ",
                most));
    } else {
      return static_cast<uint32_t>(out);
    }
    return least;
  }
  uint32_t index(std::string_view name) { return number(name, 0, kMaxRanks - 1); }
  uint32_t count(std::string_view name) { return number(name, 1, kMaxRanks); }
  uint16_t port(std::string_view name) {
    return static_cast<uint16_t>(number(name, 1, std::numeric_limits<uint16_t>::max()));
  }
  void fail(std::string_view fact) {
    if (status_.ok()) {
      status_ = invalid_argument(
          fact, text("the other variables say that ", source_, " started this process"),
          "start all ranks the same way, or clear the variables");
    }
  }
  const Status& status() const { return status_; }

 private:
  const GetEnv& env_;
  std::string source_;
  Status status_;
};

// A port that all ranks of a job agree on without talking.
uint16_t port_of(std::string_view job) {
  return static_cast<uint16_t>(kFirstPort + mix64(site_of(job)) % kPorts);
}

// "n[1-3,7],m2" -> "n1"
std::string first_host(std::string_view list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket)
    return std::string(list.substr(0, comma));
  const size_t end = list.find_first_of("-,]", bracket);
  return std::string(list.substr(0, bracket)) +
         std::string(list.substr(bracket + 1, end - bracket - 1));
}

// "4(x2),3" at index 0 -> 4
uint32_t tasks_on_node(std::string_view list, uint32_t node) {
  while (!list.empty()) {
    uint32_t tasks = 0;
    uint32_t repeat = 1;
    const auto parsed = std::from_chars(list.data(), list.data() + list.size(), tasks);
    list.remove_prefix(static_cast<size_t>(parsed.ptr - list.data()));
    if (list.starts_with("(x")) {
      const auto count = std::from_chars(list.data() + 2, list.data() + list.size(), repeat);
      list.remove_prefix(std::min(list.size(), static_cast<size_t>(count.ptr - list.data()) + 1));
    }
    if (node < repeat) return tasks;
    node -= repeat;
    if (parsed.ec != std::errc() || list.empty()) break;
    list.remove_prefix(1);
  }
  return 1;
}

// MASTER_ADDR and MASTER_PORT win over what a scheduler lets us derive.
void set_store(Reader& env, RankInfo& info, std::string_view host, std::string_view job) {
  info.store_host = env.text_of("MASTER_ADDR", host);
  info.store_port = env.has("MASTER_PORT") ? env.port("MASTER_PORT") : port_of(job);
  info.token = env.text_of("MEGATRON_TOKEN", job);
}

RankInfo from_torchrun(Reader& env) {
  RankInfo info;
  info.source = "torchrun variables";
  info.rank = env.index("RANK");
  info.world_size = env.count("WORLD_SIZE");
  info.local_rank = env.has("LOCAL_RANK") ? env.index("LOCAL_RANK") : 0;
  info.local_size = env.has("LOCAL_WORLD_SIZE") ? env.count("LOCAL_WORLD_SIZE") : 1;
  if (info.world_size > 1) {
    if (!env.has("MASTER_ADDR")) env.fail("environment variable MASTER_ADDR is missing");
    if (!env.has("MASTER_PORT")) env.fail("environment variable MASTER_PORT is missing");
  }
  set_store(env, info, "127.0.0.1", env.text_of("TORCHELASTIC_RUN_ID", "megatron"));
  return info;
}

RankInfo from_slurm(Reader& env) {
  RankInfo info;
  info.source = "Slurm";
  info.rank = env.index("SLURM_PROCID");
  info.world_size = env.has("SLURM_STEP_NUM_TASKS") ? env.count("SLURM_STEP_NUM_TASKS")
                                                    : env.count("SLURM_NTASKS");
  info.local_rank = env.index("SLURM_LOCALID");
  const uint32_t node = env.has("SLURM_NODEID") ? env.index("SLURM_NODEID") : 0;
  info.local_size = tasks_on_node(
      env.text_of("SLURM_STEP_TASKS_PER_NODE", env.text_of("SLURM_TASKS_PER_NODE", "1")), node);
  const std::string nodes = env.text_of("SLURM_STEP_NODELIST", env.text_of("SLURM_JOB_NODELIST"));
  set_store(env, info, first_host(nodes),
            text("slurm-", env.text_of("SLURM_JOB_ID"), ".", env.text_of("SLURM_STEP_ID")));
  return info;
}

RankInfo from_open_mpi(Reader& env) {
  RankInfo info;
  info.source = "Open MPI";
  info.rank = env.index("OMPI_COMM_WORLD_RANK");
  info.world_size = env.count("OMPI_COMM_WORLD_SIZE");
  info.local_rank = env.index("OMPI_COMM_WORLD_LOCAL_RANK");
  info.local_size = env.count("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (info.local_size < info.world_size && !env.has("MASTER_ADDR")) {
    env.fail("environment variable MASTER_ADDR is missing: mpirun started ranks on several hosts");
  }
  set_store(env, info, "127.0.0.1",
            text("ompi-", env.text_of("PMIX_NAMESPACE", env.text_of("OMPI_MCA_ess_base_jobid"))));
  return info;
}

}  // namespace

GetEnv process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<std::optional<RankInfo>> detect_rank(const GetEnv& env) {
  struct Launcher {
    std::string_view name, first,
        second;  // both variables are set by this launcher and by nobody else
    RankInfo (*read)(Reader& env);
  };
  static constexpr Launcher kLaunchers[] = {
      {"torchrun or the local launcher", "RANK", "WORLD_SIZE", from_torchrun},
      {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", from_open_mpi},
      {"srun of Slurm", "SLURM_PROCID", "SLURM_STEP_ID", from_slurm},
  };
  for (const auto& launcher : kLaunchers) {
    Reader reader(env, launcher.name);
    if (!reader.has(launcher.first) || !reader.has(launcher.second)) continue;
    const RankInfo info = launcher.read(reader);
    if (!reader.status().ok()) return reader.status();
    if (info.rank >= info.world_size || info.local_rank >= info.local_size) {
      return invalid_argument(text("this process is rank ", info.rank, " of ", info.world_size,
                                   " and local rank ", info.local_rank, " of ", info.local_size),
                              text("that is what the variables of ", launcher.name, " say"),
                              "ranks count from 0; correct the variables");
    }
    return std::optional(info);
  }
  return std::optional<RankInfo>();
}

}  // namespace megatron::launch
