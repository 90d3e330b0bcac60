#include "base/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <tuple>

#include "megatron/status.hpp"

namespace megatron {
namespace {

// A CPU set of any size: the kernel refuses a buffer that is shorter than its own mask.
class Mask {
 public:
  explicit Mask(size_t cpus) : words_((cpus + kBits - 1) / kBits) {}

  static Mask of_this_thread() {
    for (size_t cpus = 1024; cpus <= (size_t{1} << 20); cpus *= 2) {
      Mask mask(cpus);
      if (::sched_getaffinity(0, mask.bytes(), mask.raw()) == 0) return mask;
      if (errno != EINVAL) break;
    }
    return Mask(0);
  }
  bool apply() { return ::sched_setaffinity(0, bytes(), raw()) == 0; }

  size_t size() const { return words_.size() * kBits; }
  bool has(int cpu) const {
    const auto i = static_cast<size_t>(cpu);
    return cpu >= 0 && i < size() && (words_[i / kBits] >> (i % kBits) & 1) != 0;
  }
  void add(int cpu) {
    const auto i = static_cast<size_t>(cpu);
    words_[i / kBits] |= 1UL << (i % kBits);
  }

 private:
  static constexpr size_t kBits = 8 * sizeof(unsigned long);
  size_t bytes() const { return words_.size() * sizeof(unsigned long); }
  cpu_set_t* raw() { return reinterpret_cast<cpu_set_t*>(words_.data()); }
  std::vector<unsigned long> words_;
};

// "0,64" or "0-1": the first number names the core.
std::optional<int> first_number(const std::string& path) {
  std::ifstream in(path);
  int number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

auto pool_order(const Cpu& cpu) { return std::tuple(cpu.thread, cpu.core, cpu.id); }
auto core_order(const Cpu& cpu) { return std::tuple(cpu.core, cpu.thread, cpu.id); }

// "max 100000" or "150000 100000": quota and period in microseconds; 0 = not limited.
uint32_t parse_quota(const std::string& quota_text, double period) {
  double quota = 0;
  const auto end = quota_text.data() + quota_text.size();
  if (std::from_chars(quota_text.data(), end, quota).ec != std::errc()) return 0;
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<uint32_t>((quota + period - 1) / period);
}

uint32_t tighter(uint32_t a, uint32_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

}  // namespace

std::vector<Cpu> usable_cpus() {
  const Mask mask = Mask::of_this_thread();
  std::vector<Cpu> cpus;
  for (int id = 0; id < static_cast<int>(mask.size()); ++id) {
    if (!mask.has(id)) continue;
    const auto core =
        first_number(text("/sys/devices/system/cpu/cpu", id, "/topology/thread_siblings_list"));
    cpus.push_back({id, core.value_or(id), 0});
  }
  // The thread index counts within the mask: a container may hold only the siblings.
  std::sort(cpus.begin(), cpus.end(),
            [](const Cpu& a, const Cpu& b) { return core_order(a) < core_order(b); });
  for (size_t i = 1; i < cpus.size(); ++i)
    if (cpus[i].core == cpus[i - 1].core) cpus[i].thread = cpus[i - 1].thread + 1;
  std::sort(cpus.begin(), cpus.end(),
            [](const Cpu& a, const Cpu& b) { return pool_order(a) < pool_order(b); });
  return cpus;
}

uint32_t cpu_quota(const std::string& root) {
  uint32_t quota = 0;
  // Version 2: the group of this process and every group above it may carry a limit.
  std::ifstream groups(text(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string group = line.substr(3);; group.resize(group.rfind('/'))) {
      std::ifstream in(text(root, "/sys/fs/cgroup", group, "/cpu.max"));
      std::string limit;
      double period = 0;
      if (in >> limit >> period) quota = tighter(quota, parse_quota(limit, period));
      if (group.rfind('/') == std::string::npos) break;
    }
  }
  // Version 1, as a container sees its own group.
  std::ifstream limit_file(text(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
  std::ifstream period_file(text(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  std::string limit;
  double period = 0;
  if (limit_file >> limit && period_file >> period)
    quota = tighter(quota, parse_quota(limit, period));
  return quota;
}

uint32_t worker_count(size_t cpus, const std::string& root) {
  const size_t count = std::max<size_t>(cpus, 1);
  const uint32_t quota = cpu_quota(root);
  return static_cast<uint32_t>(quota == 0 ? count : std::min<size_t>(count, quota));
}

std::vector<Cpu> cpus_of_rank(std::span<const Cpu> cpus, uint32_t rank, uint32_t ranks) {
  MGT_CHECK(rank < ranks);
  std::vector<Cpu> share(cpus.begin(), cpus.end());
  if (share.size() < ranks) return share;
  std::sort(share.begin(), share.end(),
            [](const Cpu& a, const Cpu& b) { return core_order(a) < core_order(b); });
  const size_t begin = share.size() * rank / ranks;
  const size_t end = share.size() * (rank + 1) / ranks;
  share = {share.begin() + static_cast<ptrdiff_t>(begin),
           share.begin() + static_cast<ptrdiff_t>(end)};
  std::sort(share.begin(), share.end(),
            [](const Cpu& a, const Cpu& b) { return pool_order(a) < pool_order(b); });
  return share;
}

bool restrict_thread(std::span<const Cpu> cpus) {
  int last = 0;
  for (const Cpu& cpu : cpus) last = std::max(last, cpu.id);
  Mask mask(static_cast<size_t>(last) + 1);
  for (const Cpu& cpu : cpus) mask.add(cpu.id);
  return mask.apply();
}

void move_thread(int cpu) {
  Mask wide = Mask::of_this_thread();
  if (!wide.has(cpu)) return;
  Mask narrow(static_cast<size_t>(cpu) + 1);
  narrow.add(cpu);
  if (narrow.apply()) static_cast<void>(wide.apply());
}

int current_cpu() { return ::sched_getcpu(); }

}  // namespace megatron
