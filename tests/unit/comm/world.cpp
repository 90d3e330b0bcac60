#include "unit/comm/world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>

#include "megatron/host.hpp"
#include "plugin/registry.hpp"
#include "support/serial_services.hpp"
#include "support/temp_folder.hpp"

namespace megatron::test {
namespace {

using namespace std::chrono_literals;

test::SerialServices& services() {
  static test::SerialServices instance;
  return instance;
}

// A store of files: a value appears by rename, whoever asks for it looks again and again.
class FileStore {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {
    MGT_INIT(&table_);
    table_.context = this;
    table_.set = [](void* self, mgt_str key, const void* value, uint64_t size) {
      const std::string path = static_cast<FileStore*>(self)->path(from_abi(key));
      std::ofstream(path + ".new", std::ios::binary)
          .write(static_cast<const char*>(value), static_cast<std::streamsize>(size));
      std::filesystem::rename(path + ".new", path);
      return static_cast<mgt_status*>(nullptr);
    };
    table_.get = [](void* self, mgt_str key, uint64_t timeout_ms, void* value, uint64_t capacity,
                    uint64_t* size) -> mgt_status* {
      const std::string path = static_cast<FileStore*>(self)->path(from_abi(key));
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
      while (!std::filesystem::exists(path)) {
        if (std::chrono::steady_clock::now() > end)
          return to_abi(Status(Code::deadline_exceeded, text("no key '", from_abi(key), "'")));
        std::this_thread::sleep_for(500us);
      }
      std::ostringstream all;
      all << std::ifstream(path, std::ios::binary).rdbuf();
      *size = all.str().size();
      std::memcpy(value, all.str().data(), std::min<size_t>(*size, capacity));
      return nullptr;
    };
  }
  const mgt_store* table() const { return &table_; }

 private:
  std::string path(std::string_view key) const {
    std::string name(key);
    std::replace(name.begin(), name.end(), '/', '+');
    return folder_ + "/" + name;
  }
  std::string folder_;
  mgt_store table_{};
};

[[noreturn]] void be_rank(const World& world, uint32_t rank, const std::string& folder,
                          const std::function<void(Rank&)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!world.hosts.empty()) ::setenv("MEGATRON_COMM_HOST", world.hosts[rank].c_str(), 1);
  const int code = run_as_rank(world, rank, folder, body);
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

int run_as_rank(const World& world, uint32_t rank, const std::string& folder,
                const std::function<void(Rank&)>& body) {
  const FileStore store(folder);
  auto loaded = LoadedComm::load(world.plugin, world.options);
  if (!loaded.ok()) {
    std::cerr << loaded.status().message() << std::endl;
    return 3;
  }
  mgt_comm_context context;
  MGT_INIT(&context);
  context.rank = rank;
  context.world_size = world.ranks;
  context.local_rank = rank;
  context.local_size = world.ranks;
  context.store = world.ranks == 1 ? nullptr : store.table();
  {
    Rank r((*loaded)->table(), (*loaded)->host(), (*loaded)->config(), context);
    if (!r.created().ok()) {
      std::cerr << "rank " << rank << ": " << r.created().message() << std::endl;
      return 4;
    }
    body(r);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

std::string plugin_path(const std::string& plugin) {
  return text(MEGATRON_BINARY_DIR, "/lib/megatron/plugins/megatron-comm-", plugin, ".so");
}

Result<std::shared_ptr<LoadedComm>> LoadedComm::load(const std::string& plugin,
                                                     std::map<std::string, std::string> given) {
  static plugin::Registry* registry = nullptr;
  delete registry;
  registry = new plugin::Registry({{plugin_path(plugin)}, {}}, services());
  auto out = std::make_shared<LoadedComm>();
  MGT_ASSIGN_OR_RETURN(const auto loaded, registry->load(MGT_KIND_COMM, plugin));
  out->table_ = &loaded.table<mgt_comm>();
  out->host_ = loaded.host();
  const auto* bytes = reinterpret_cast<const char*>(loaded.options());
  for (uint64_t i = 0; i < loaded.option_count(); ++i) {
    const auto& o = *reinterpret_cast<const mgt_option*>(bytes);
    bytes += o.struct_size;
    const std::string key(from_abi(o.key));
    std::string value(from_abi(o.default_value));
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    if (const auto at = given.find(key); at != given.end()) value = at->second;
    out->values_[key] = {o.type, value};
  }
  MGT_INIT(&out->config_);
  out->config_.context = out.get();
  out->config_.get = [](const void* context, mgt_str key, mgt_config_value* value) {
    return static_cast<const LoadedComm*>(context)->get(from_abi(key), value);
  };
  return out;
}

mgt_status* LoadedComm::get(std::string_view key, mgt_config_value* out) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return to_abi(Status(Code::not_found, text("no option ", key)));
  out->type = at->second.type;
  const auto& t = at->second.text;
  out->i = t == "true" ? 1 : std::atoll(t.c_str());
  out->f = std::atof(t.c_str());
  out->s = to_abi(std::string_view(t));
  return nullptr;
}

Rank::Rank(const mgt_comm* table, const mgt_host* host, const mgt_config* config,
           const mgt_comm_context& context)
    : table_(table), store_(context.store), rank_(context.rank), size_(context.world_size) {
  created_ = from_abi(table->create(host, config, &context, &self_));
}
Rank::~Rank() {
  if (self_ != nullptr) table_->destroy(self_);
}

GroupHandle Rank::group(std::string_view name, std::vector<uint32_t> ranks) const {
  if (ranks.empty()) {
    ranks.resize(size_);
    std::iota(ranks.begin(), ranks.end(), 0u);
  }
  void* group = nullptr;
  const Status status = from_abi(table_->group(self_, to_abi(name), ranks.data(),
                                               static_cast<uint32_t>(ranks.size()), &group));
  MGT_CHECK(status.ok(), status.message());
  return {table_, self_, group};
}

void* Rank::allocate_bytes(size_t bytes) const {
  void* memory = nullptr;
  const Status status = from_abi(table_->allocate(self_, bytes, &memory));
  MGT_CHECK(status.ok(), status.message());
  return memory;
}

void Rank::meet(const std::string& where) const {
  const auto key = [&](uint32_t r) { return text("meet/", where, "/", r); };
  static_cast<void>(
      from_abi(store_->set(store_->context, to_abi(std::string_view(key(rank_))), "x", 1)));
  for (uint32_t r = 0; r < size_; ++r) {
    char value;
    uint64_t size = 0;
    static_cast<void>(from_abi(
        store_->get(store_->context, to_abi(std::string_view(key(r))), 30'000, &value, 1, &size)));
  }
}

std::vector<int> run_ranks(const World& world, const std::function<void(Rank&)>& body) {
  const TempFolder folder;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < world.ranks; ++r) {
    const pid_t child = ::fork();
    MGT_CHECK(child >= 0);
    if (child == 0) be_rank(world, r, folder.path(), body);
    children.push_back(child);
  }
  std::vector<int> codes(world.ranks, kStuck);
  const auto end = std::chrono::steady_clock::now() + world.limit;
  uint32_t running = world.ranks;
  while (running > 0) {
    for (uint32_t r = 0; r < world.ranks; ++r) {
      int status = 0;
      if (codes[r] != kStuck || ::waitpid(children[r], &status, WNOHANG) != children[r]) continue;
      codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      --running;
    }
    if (std::chrono::steady_clock::now() > end) {
      for (uint32_t r = 0; r < world.ranks; ++r) {
        if (codes[r] != kStuck) continue;
        ::kill(children[r], SIGKILL);
        ::waitpid(children[r], nullptr, 0);
      }
      break;
    }
    std::this_thread::sleep_for(1ms);
  }
  return codes;
}

void expect_all_pass(const World& world, const std::function<void(Rank&)>& body) {
  EXPECT_EQ(run_ranks(world, body), std::vector<int>(world.ranks, 0));
}

mgt_collective operation(mgt_collective_kind kind, mgt_dtype dtype, const void* send, void* recv,
                         uint64_t count, std::string_view name) {
  mgt_collective o;
  MGT_INIT(&o);
  o.kind = kind;
  o.dtype = dtype;
  o.reduce = MGT_REDUCE_SUM;
  o.name = to_abi(name);
  o.send = send;
  o.recv = recv;
  o.count = count;
  return o;
}

}  // namespace megatron::test
