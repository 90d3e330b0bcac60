// Latency and bus bandwidth of collectives against Open MPI and Gloo, in the same processes, by
// turns:
//   mpirun -n 2 --bind-to none build/release/bin/bench_comm [--kinds all_reduce,…] [--max-mb 64]
//   mpirun -n 2 --bind-to none build/release/bin/bench_comm --traps
// --best prints each one's fastest round instead of the median: for a machine that others use too.
// Bus bandwidth as NCCL's tests define it: what each link would carry, 2(n-1)/n of the vector for
// all_reduce, (n-1)/n for the other two.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "comm/contestants.hpp"
#include "comm/timing.hpp"
#include "comm/traps.hpp"
#include "support/temp_folder.hpp"

namespace megatron::bench {
namespace {

struct Settings {
  uint64_t max_bytes = uint64_t{64} << 20;
  int rounds = 21;
  bool traps = false, best = false;
  std::string spin_us = "50";
  std::vector<Kind> kinds = {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather};
};

constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather"};

Settings parse(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--traps") {
      s.traps = true;
      continue;
    }
    if (name == "--best") {
      s.best = true;
      continue;
    }
    ++i;
    if (name == "--max-mb") {
      s.max_bytes = std::strtoull(value.c_str(), nullptr, 10) << 20;
    } else if (name == "--spin-us") {
      s.spin_us = value;
    } else if (name == "--rounds") {
      s.rounds = std::atoi(value.c_str());
    } else if (name == "--kinds") {
      s.kinds.clear();
      for (size_t k = 0; k < std::size(kNames); ++k) {
        if (value.find(kNames[k]) != std::string::npos) s.kinds.push_back(static_cast<Kind>(k));
      }
    } else {
      fmt::print(stderr, "unknown option {}\n", name);
      std::exit(2);
    }
  }
  return s;
}

std::string machine() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  int processors = 0;
  while (std::getline(info, line)) {
    if (line.rfind("processor", 0) == 0) ++processors;
    if (line.rfind("model name", 0) == 0) model = line.substr(line.find(':') + 2);
  }
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  int size = 0;
  MPI_Get_library_version(mpi, &size);
  const std::string version = std::string(mpi).substr(0, std::string(mpi).find(','));
  return fmt::format("{} x {}, {}, g++ {}", processors, model, version, __VERSION__);
}

std::string size_text(uint64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

void compare(const Settings& s, uint32_t rank, uint32_t ranks,
             const std::vector<Contestant>& contestants) {
  for (const Kind kind : s.kinds) {
    if (rank == 0) {
      fmt::print("\n{} of f32, {} ranks; us (bus GB/s), {} of {} rounds\n\n| size |",
                 kNames[static_cast<int>(kind)], ranks, s.best ? "best" : "median", s.rounds);
      for (const auto& c : contestants) fmt::print(" {} |", c.name);
      for (size_t i = 2; i < contestants.size(); ++i) {
        fmt::print(" {} / allocated | {} / plain |", contestants[i].name, contestants[i].name);
      }
      fmt::print("\n|{}\n", [&] {
        std::string line;
        for (size_t i = 0; i < 1 + contestants.size() + 2 * (contestants.size() - 2); ++i)
          line += "---|";
        return line;
      }());
    }
    for (uint64_t bytes = 1024; bytes <= s.max_bytes; bytes *= 4) {
      const uint64_t elements = bytes / sizeof(float);
      std::vector<std::function<void()>> runs;
      std::vector<int> repeats;
      for (const auto& c : contestants) {
        runs.push_back(c.prepare(kind, elements));
        repeats.push_back(repetitions(runs.back()));
      }
      std::vector<std::vector<double>> times(runs.size());
      for (int round = 0; round < s.rounds; ++round) {
        for (size_t i = 0; i < runs.size(); ++i)
          times[i].push_back(seconds_each(runs[i], repeats[i]));
      }
      if (rank != 0) continue;
      std::vector<double> t;
      for (const auto& x : times)
        t.push_back(s.best ? *std::min_element(x.begin(), x.end()) : median(x));
      const double share = static_cast<double>(ranks - 1) / ranks;
      const double moved =
          static_cast<double>(bytes) * share * (kind == Kind::all_reduce ? 2.0 : 1.0);
      fmt::print("| {} |", size_text(bytes));
      for (const double x : t) fmt::print(" {:.1f} ({:.2f}) |", x * 1e6, moved / x / 1e9);
      for (size_t i = 2; i < t.size(); ++i)
        fmt::print(" {:.1f} | {:.1f} |", t[i] / t[0], t[i] / t[1]);
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
}

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Settings s = parse(argc, argv);
  char folder[64] = "/tmp/bench_comm_XXXXXX";
  if (rank == 0 && ::mkdtemp(folder) == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) fmt::print("{}\n", machine());
  const test::World world{.ranks = static_cast<uint32_t>(ranks),
                          .options = {{"spin_us", s.spin_us}}};
  const auto me = static_cast<uint32_t>(rank);
  const int code = test::run_as_rank(world, me, folder, [&](test::Rank& r) {
    const auto group = r.group("world");
    const uint64_t elements = s.max_bytes / sizeof(float);
    if (s.traps) return show_traps(r, group);
    auto contestants = own_contestants(r, group, elements);
    contestants.push_back(mpi_contestant(elements));
#ifdef MEGATRON_HAVE_GLOO
    contestants.push_back(gloo_contestant(me, world.ranks, folder, elements));
#endif
    compare(s, me, world.ranks, contestants);
    MPI_Barrier(MPI_COMM_WORLD);
  });
  MPI_Finalize();
  std::error_code ignored;
  if (rank == 0) std::filesystem::remove_all(folder, ignored);
  return code;
}

}  // namespace
}  // namespace megatron::bench

int main(int argc, char** argv) { return megatron::bench::run(argc, argv); }
