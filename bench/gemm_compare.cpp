// The CPU device's matrix product next to the BLAS libraries that CMake found: GF/s of each, and
// the ratio to the best of them.
//   gemm_compare [--threads N] [--rounds 9] [--filter TEXT]
// All take turns in every round, so that a busy machine hurts all alike; medians over the rounds.
// With --threads 1 times are processor time of the calling thread: usable while others compile.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "gemm/gemm.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a program of its own
using cpu::GemmForm;
using cpu::GemmPlan;
using cpu::GemmShape;

struct Pool {
  ThreadPool& threads;
  int workers() const { return static_cast<int>(threads.workers()); }
  template <class Body>
  void parallel_for(int64_t tasks, const Body& body) {
    threads.parallel_for(
        tasks, [&](int64_t task, uint32_t worker) { body(task, static_cast<int>(worker)); });
  }
};

// Operands of one product; c is added to when `adds`.
struct Call {
  GemmShape s;
  const float *a, *b;
  float* c;
  bool adds;
};

struct Library {
  std::string name;
  std::function<void(const Call&)> gemm;
  std::function<void(int)> set_threads;
};

template <class F>
F symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<F>(found);
}

// Opened rather than linked: OpenBLAS and BLIS define the same names.
std::vector<Library> load_libraries() {
  std::vector<Library> found;
  const struct {
    const char *name, *path, *set_threads;
  } cblas[] = {{"OpenBLAS", MEGATRON_OPENBLAS, "openblas_set_num_threads"},
               {"BLIS", MEGATRON_BLIS, "bli_thread_set_num_threads"}};
  for (const auto& library : cblas) {
    void* handle = *library.path == '\0' ? nullptr : dlopen(library.path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    std::function<void(int)> set_threads = symbol<void (*)(int)>(handle, library.set_threads);
    if (std::strcmp(library.name, "BLIS") == 0) {  // counts in its dim_t
      set_threads = symbol<void (*)(int64_t)>(handle, library.set_threads);
    }
    using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                          float, float*, int);
    const auto gemm = symbol<Gemm>(handle, "cblas_sgemm");
    found.push_back({library.name,
                     [gemm](const Call& q) {
                       constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
                       const auto i = [](int64_t n) { return static_cast<int>(n); };
                       gemm(kRowMajor, q.s.form == GemmForm::tn ? kTransposed : kAsIs,
                            q.s.form == GemmForm::nt ? kTransposed : kAsIs, i(q.s.m), i(q.s.n),
                            i(q.s.k), 1, q.a, i(q.s.lda), q.b, i(q.s.ldb), q.adds ? 1.0f : 0.0f,
                            q.c, i(q.s.ldc));
                     },
                     set_threads});
  }
  if (void* handle =
          *MEGATRON_DNNL == '\0' ? nullptr : dlopen(MEGATRON_DNNL, RTLD_NOW | RTLD_LOCAL)) {
    using Gemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                         const float*, int64_t, float, float*, int64_t);
    const auto gemm = symbol<Gemm>(handle, "dnnl_sgemm");
    found.push_back({"oneDNN",
                     [gemm](const Call& q) {
                       gemm(q.s.form == GemmForm::tn ? 'T' : 'N',
                            q.s.form == GemmForm::nt ? 'T' : 'N', q.s.m, q.s.n, q.s.k, 1, q.a,
                            q.s.lda, q.b, q.s.ldb, q.adds ? 1.0f : 0.0f, q.c, q.s.ldc);
                     },
                     symbol<void (*)(int)>(handle, "omp_set_num_threads")});
  }
  return found;
}

// In huge pages, as the device's memory is.
class Floats {
 public:
  explicit Floats(int64_t count) {
    constexpr size_t kHuge = size_t{2} << 20;
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + kHuge) / kHuge * kHuge;
    data_ = static_cast<float*>(std::aligned_alloc(kHuge, bytes));
    madvise(data_, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < count; ++i) data_[i] = 0.01f * static_cast<float>(i % 7 - 3);
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { std::free(data_); }
  float* data() const { return data_; }

 private:
  float* data_;
};

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

struct Options {
  int threads = 0, rounds = 9;
  std::string filter;
};

class Comparison {
 public:
  Comparison(const Options& options, const std::vector<Library>& libraries, ThreadPool& pool)
      : options_(options), libraries_(libraries), pool_{pool} {
    fmt::print("{:<28} {:>10}", "C = A B", "own GF/s");
    for (const auto& library : libraries_) fmt::print(" {:>10}", library.name);
    fmt::print(" {:>10}\n", "own/best");
  }

  // `serial`: on the calling thread alone, as attention multiplies its tiles.
  void measure(std::string_view what, const Call& call, bool serial) {
    constexpr std::string_view kForms[] = {"NT", "NN", "TN"};
    const auto& s = call.s;
    const auto title =
        fmt::format("{} {} {}x{}x{}", what, kForms[static_cast<size_t>(s.form)], s.m, s.n, s.k);
    if (title.find(options_.filter) == std::string::npos) return;
    const auto plan = GemmPlan::make(s);
    const Floats workspace(
        (serial ? plan.serial_workspace_bytes() : plan.workspace_bytes(pool_.workers())) / 4);
    std::vector<std::vector<double>> rates(libraries_.size() + 1);
    const auto own = [&] {
      if (serial) {
        plan.run_serial(call.a, call.b, call.c, 1, call.adds, workspace.data());
      } else {
        plan.run(pool_, call.a, call.b, call.c, 1, call.adds, workspace.data());
      }
    };
    for (const auto& library : libraries_) library.set_threads(serial ? 1 : options_.threads);
    std::vector<double> ratios;
    for (int round = 0; round < options_.rounds; ++round) {
      rates[0].push_back(rate(s, own));
      double best = 0;
      for (size_t i = 0; i < libraries_.size(); ++i) {
        rates[i + 1].push_back(rate(s, [&] { libraries_[i].gemm(call); }));
        best = std::max(best, rates[i + 1].back());
      }
      if (best > 0) ratios.push_back(rates[0].back() / best);
    }
    fmt::print("{:<28}", title);
    for (const auto& r : rates) fmt::print(" {:>10.1f}", median(r));
    fmt::print(" {:>10}\n", ratios.empty() ? "-" : fmt::format("{:.2f}", median(ratios)));
    std::fflush(stdout);
  }

 private:
  double now() const {
    timespec t{};
    clock_gettime(options_.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  template <class Body>
  double rate(const GemmShape& s, const Body& body) const {
    const double flops =
        2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const int calls = std::max(1, static_cast<int>(2e9 / flops));
    body();
    const double start = now();
    for (int i = 0; i < calls; ++i) body();
    return flops * calls / (now() - start) / 1e9;
  }

  const Options& options_;
  const std::vector<Library>& libraries_;
  Pool pool_;
};

// Y[m, n] = X[m, k]·W[n, k]ᵀ, dX = dY·W and dW += dYᵀ·X of the layers of GPT-2 124M.
void compare_layers(Comparison& comparison) {
  constexpr int64_t kLargest = 4096;
  const Floats x(kLargest * kLargest), w(kLargest * kLargest), y(kLargest * kLargest);
  const struct {
    std::string_view name;
    int64_t n, k;
  } layers[] = {{"projection", 768, 768},
                {"qkv", 2304, 768},
                {"mlp up", 3072, 768},
                {"mlp down", 768, 3072},
                {"logits", 4096, 768}};
  for (const int64_t m : {256, 1024, 4096}) {
    for (const auto& [name, n, k] : layers) {
      for (const GemmShape& s :
           {GemmShape{GemmForm::nt, m, n, k, k, k, n}, GemmShape{GemmForm::nn, m, k, n, n, k, k},
            GemmShape{GemmForm::tn, n, k, m, n, k, k}}) {
        comparison.measure(name, {s, x.data(), w.data(), y.data(), s.form == GemmForm::tn}, false);
      }
    }
  }
}

// Tiles of attention with heads of width 64 inside rows of 768.
void compare_tiles(Comparison& comparison) {
  constexpr int64_t kRow = 768, kHead = 64, kTile = 128;
  const Floats q(kTile * kRow), k(kTile * kRow), scores(kTile * kTile);
  comparison.measure("tile",
                     {{GemmForm::nt, kTile, kTile, kHead, kRow, kRow, kTile},
                      q.data(),
                      k.data(),
                      scores.data(),
                      false},
                     true);
  comparison.measure("tile",
                     {{GemmForm::nn, kTile, kHead, kTile, kTile, kRow, kRow},
                      scores.data(),
                      k.data(),
                      q.data(),
                      true},
                     true);
  comparison.measure("tile",
                     {{GemmForm::tn, kTile, kHead, kTile, kTile, kRow, kRow},
                      scores.data(),
                      k.data(),
                      q.data(),
                      true},
                     true);
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--threads") {
      options.threads = std::atoi(argv[i + 1]);
    } else if (name == "--rounds") {
      options.rounds = std::max(1, std::atoi(argv[i + 1]));
    } else if (name == "--filter") {
      options.filter = argv[i + 1];
    } else {
      return std::nullopt;
    }
  }
  if (argc % 2 == 0) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options.has_value()) {
    fmt::print(stderr, "usage: gemm_compare [--threads N] [--rounds N] [--filter TEXT]\n");
    return 2;
  }
  const auto cpus = usable_cpus();
  if (options->threads <= 0) options->threads = static_cast<int>(cpus.size());
  // Read when a library's OpenMP starts: threads that stay on their processors and sleep between
  // calls, as ours do.
  setenv("OMP_PROC_BIND", "true", 0);
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("OMP_NUM_THREADS", std::to_string(options->threads).c_str(), 0);
  // Loaded before the pool moves this thread, as OpenMP takes its places from the mask that it
  // finds; and after usable_cpus, as it then narrows that mask to one of them.
  const auto libraries = load_libraries();
  auto pool =
      ThreadPool::create({.workers = static_cast<uint32_t>(options->threads), .cpus = cpus});
  if (!pool.ok()) {
    fmt::print(stderr, "{}\n", pool.status().message());
    return 1;
  }
  Comparison comparison(*options, libraries, **pool);
  compare_layers(comparison);
  compare_tiles(comparison);
}
