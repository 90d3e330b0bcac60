// GEMM of the CPU device against whatever BLAS libraries can be loaded, as a share of the FMA peak.
//   gemm_bench [rounds] [filter] ; filter: substring of the printed case name.
// Candidates alternate inside every round, each between two peak probes, so that a busy host hits
// all alike. Run with OMP_PROC_BIND=true OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2.
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gemm.hpp"

namespace {
using megatron::cpu::GemmForm;
using megatron::cpu::GemmPlan;
using megatron::cpu::GemmShape;

// GEMM_BENCH_THREADS=1 times the calling thread's processor time: usable while others compile.
const int kThreads = std::getenv("GEMM_BENCH_THREADS") != nullptr ? 1 : 2;

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Two pinned threads; the caller is worker 0. Waits spin for a moment, then sleep.
class BenchPool {
 public:
  BenchPool() : thread_([this] { serve(); }) { pin(0); }
  ~BenchPool() {
    job_ = nullptr;
    signal();
    thread_.join();
  }
  int workers() const { return kThreads; }
  template <class F>
  void parallel_for(int64_t tasks, const F& f) {
    const std::function<void(int)>& job = [&](int w) {
      for (int64_t t; (t = next_.fetch_add(1, std::memory_order_relaxed)) < tasks;) f(t, w);
    };
    next_.store(0);
    if (kThreads == 1) return job(0);
    job_ = &job;
    done_.store(0);
    signal();
    job(0);
    while (done_.load(std::memory_order_acquire) == 0) _mm_pause();
  }

 private:
  void signal() {
    epoch_.fetch_add(1);
    epoch_.notify_one();
  }
  void serve() {
    pin(1);
    for (int seen = 0;; ++seen) {
      for (int i = 0; i < 3000 && epoch_.load() == seen; ++i) _mm_pause();
      epoch_.wait(seen);
      if (job_ == nullptr) return;
      (*job_)(1);
      done_.store(1, std::memory_order_release);
    }
  }
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<int64_t> next_{0};
  std::atomic<int> epoch_{0}, done_{0};
  std::thread thread_;
};

double now() {
  if (kThreads == 1) {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

__attribute__((target("avx2,fma"), noinline)) float fma_loop(int64_t count) {
  __m256 s[12];
  for (auto& x : s) x = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(1.0f);
  for (int64_t i = 0; i < count; ++i) {
    _Pragma("GCC unroll 12") for (int j = 0; j < 12; ++j) s[j] = _mm256_fmadd_ps(x, x, s[j]);
    asm volatile("" : "+x"(x));
  }
  for (int j = 1; j < 12; ++j) s[0] = _mm256_add_ps(s[0], s[j]);
  return s[0][0];
}

volatile float g_sink;

// Times that the kernel took a processor away from this program.
int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return kThreads == 1 ? 0 : usage.ru_nivcsw;
}

// GF/s of 256-bit FMA on all threads at once, once both are awake and others asleep; 0: disturbed.
double probe(BenchPool& pool) {
  constexpr int64_t kCount = 2000;
  usleep(500);
  pool.parallel_for(16, [](int64_t, int) { g_sink = fma_loop(kCount); });
  const int64_t preempted = preemptions();
  const double start = now();
  pool.parallel_for(16 * kThreads, [](int64_t, int) { g_sink = fma_loop(kCount); });
  const double rate = 16.0 * kThreads * kCount * 12 * 16 / (now() - start) * 1e-9;
  return preemptions() - preempted > 1 ? 0.0 : rate;
}

float* floats(int64_t count) {
  const size_t bytes = (static_cast<size_t>(count) * 4 + (2u << 20)) & ~((size_t{2} << 20) - 1);
  void* p = nullptr;
  if (posix_memalign(&p, 2 << 20, bytes) != 0) std::abort();
  madvise(p, bytes, MADV_HUGEPAGE);
  float* f = static_cast<float*>(p);
  for (int64_t i = 0; i < count; ++i) f[i] = 0.01f * static_cast<float>(i % 7 - 3);
  return f;
}

using CblasGemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                           float, float*, int);
using DnnlGemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                         const float*, int64_t, float, float*, int64_t);
using SetThreads = void (*)(int);

struct Call {
  GemmShape s;
  const float *a, *b;
  float* c;
  bool accumulate;
};
struct Library {
  std::string name;
  std::function<void(const Call&)> gemm;
  std::function<void(int)> set_threads;  // for calls from each pool thread
};

std::vector<Library> load_libraries() {
  std::vector<Library> found;
  const char* only = std::getenv("GEMM_BENCH_LIBRARIES");
  if (only != nullptr && *only == 0) return found;
  static SetThreads omp_threads = nullptr;
  if (void* h = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL)) {
    auto gemm = reinterpret_cast<DnnlGemm>(dlsym(h, "dnnl_sgemm"));
    omp_threads = reinterpret_cast<SetThreads>(dlsym(h, "omp_set_num_threads"));
    found.push_back({"dnnl",
                     [gemm](const Call& q) {
                       gemm(q.s.form == GemmForm::tn ? 'T' : 'N', q.s.form == GemmForm::nt ? 'T' : 'N',
                            q.s.m, q.s.n, q.s.k, 1.0f, q.a, q.s.lda, q.b, q.s.ldb,
                            q.accumulate ? 1.0f : 0.0f, q.c, q.s.ldc);
                     },
                     [](int n) { omp_threads(n); }});
  }
  const std::pair<const char*, const char*> paths[] = {
      {"openblas", "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"},
      {"blis", "/usr/lib/x86_64-linux-gnu/blis-openmp/libblis.so.4"}};
  for (const auto& [name, path] : paths) {
    void* h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (h == nullptr) continue;
    auto gemm = reinterpret_cast<CblasGemm>(dlsym(h, "cblas_sgemm"));
    auto threads = reinterpret_cast<SetThreads>(
        dlsym(h, std::strcmp(name, "blis") == 0 ? "bli_thread_set_num_threads" : "openblas_set_num_threads"));
    found.push_back({name,
                     [gemm](const Call& q) {
                       gemm(101, q.s.form == GemmForm::tn ? 112 : 111, q.s.form == GemmForm::nt ? 112 : 111,
                            static_cast<int>(q.s.m), static_cast<int>(q.s.n), static_cast<int>(q.s.k), 1.0f,
                            q.a, static_cast<int>(q.s.lda), q.b, static_cast<int>(q.s.ldb),
                            q.accumulate ? 1.0f : 0.0f, q.c, static_cast<int>(q.s.ldc));
                     },
                     threads});
  }
  return found;
}

const char* form_name(GemmForm f) {
  return f == GemmForm::nt ? "NT" : f == GemmForm::nn ? "NN" : "TN";
}

struct Candidate {
  std::string name;
  std::function<void()> call;
  std::vector<double> share, gflops;
};

void measure(BenchPool& pool, const std::string& name, double flops, int rounds,
             std::vector<Candidate>& candidates) {
  const int calls = std::max(1, static_cast<int>(1.2e9 / flops));
  std::vector<double> probes;
  static double best_peak = 0.0;  // a lower one means that something else had a processor
  int discarded = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& q : candidates) {
      for (int attempt = 0; attempt < 8; ++attempt) {
        const double before = probe(pool);
        usleep(500);
        q.call();
        const int64_t preempted = preemptions();
        const double start = now();
        for (int i = 0; i < calls; ++i) q.call();
        const double rate = flops * calls / (now() - start) * 1e-9;
        const bool disturbed = preemptions() - preempted > 1;
        const double after = probe(pool), peak = 0.5 * (before + after);
        best_peak = std::max({best_peak, before, after});
        if (disturbed || std::min(before, after) < 0.9 * best_peak) {
          ++discarded;
          continue;
        }
        q.share.push_back(rate / peak);
        q.gflops.push_back(rate);
        probes.push_back(peak);
        break;
      }
    }
  }
  const auto at = [](std::vector<double>& v, double f) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0.0 : v[static_cast<size_t>(f * static_cast<double>(v.size() - 1))];
  };
  std::printf("%-30s", name.c_str());
  for (Candidate& q : candidates) {
    std::printf(" | %s %.2f/%.2f %3.0f/%3.0f", q.name.c_str(), at(q.share, 0.5), at(q.share, 0.9),
                at(q.gflops, 0.5), at(q.gflops, 0.9));
  }
  std::printf(" | peak %3.0f/%3.0f, %d discarded\n", at(probes, 0.5), at(probes, 0.9), discarded);
  std::fflush(stdout);
}

void bench_large(BenchPool& pool, const std::vector<Library>& libraries, int rounds,
                 const char* filter) {
  struct Layer {
    int64_t m, n, k;
  };
  std::vector<Layer> layers;
  for (int64_t m : {256, 1024, 4096}) {
    layers.insert(layers.end(), {{m, 768, 768}, {m, 3072, 768}, {m, 768, 3072}});
  }
  layers.insert(layers.end(), {{1024, 4096, 768}, {4096, 2048, 768}});
  float* x = floats(4096 * 4096);
  float* w = floats(4096 * 4096);
  float* y = floats(4096 * 4096);
  for (const Layer& l : layers) {
    for (GemmForm form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
      // Layer Y(m, n) = X(m, k) W(n, k)^T; dX = dY W; dW += dY^T X.
      const GemmShape s = form == GemmForm::nt   ? GemmShape{form, l.m, l.n, l.k, l.k, l.k, l.n}
                          : form == GemmForm::nn ? GemmShape{form, l.m, l.k, l.n, l.n, l.k, l.k}
                                                 : GemmShape{form, l.n, l.k, l.m, l.n, l.k, l.k};
      const Call call{s, x, w, y, form == GemmForm::tn};
      char name[96];
      std::snprintf(name, sizeof name, "%s tokens %ld out %ld in %ld", form_name(form), l.m, l.n, l.k);
      if (std::strstr(name, filter) == nullptr) continue;
      const GemmPlan plan = GemmPlan::make(s);
      float* scratch = floats(plan.workspace_bytes(kThreads) / 4);
      std::vector<Candidate> candidates;
      candidates.push_back({"own", [&] { plan.run(pool, call.a, call.b, call.c, 1.0f, call.accumulate, scratch); }, {}, {}});
      for (const Library& lib : libraries) {
        lib.set_threads(kThreads);
        candidates.push_back({lib.name, [&lib, &call] { lib.gemm(call); }, {}, {}});
      }
      measure(pool, name, 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k), rounds, candidates);
      std::free(scratch);
    }
  }
  std::free(x);
  std::free(w);
  std::free(y);
}

// Tiles of attention: 12 heads of width 64 interleaved in rows of 768; one task is one head.
void bench_tiles(BenchPool& pool, const std::vector<Library>& libraries, int rounds,
                 const char* filter) {
  constexpr int64_t kHidden = 768, kHead = 64, kHeads = 12;
  float* q = floats(1024 * kHidden);
  float* k = floats(1024 * kHidden);
  float* o = floats(1024 * kHidden);
  float* s = floats(kThreads * 256 * 256);
  for (int64_t t : {64, 128, 256}) {
    for (int kind = 0; kind < 3; ++kind) {
      // S = Q K^T (dP = dO V^T alike); O += P V (dQ += dS K alike); dV += P^T dO (dK alike).
      const GemmShape shape = kind == 0   ? GemmShape{GemmForm::nt, t, t, kHead, kHidden, kHidden, t}
                              : kind == 1 ? GemmShape{GemmForm::nn, t, kHead, t, t, kHidden, kHidden}
                                          : GemmShape{GemmForm::tn, t, kHead, t, t, kHidden, kHidden};
      char name[96];
      std::snprintf(name, sizeof name, "%s tile %ldx%ldx%ld", form_name(shape.form), shape.m, shape.n, shape.k);
      if (std::strstr(name, filter) == nullptr) continue;
      const GemmPlan plan = GemmPlan::make(shape);
      const int64_t scratch_floats = (plan.serial_workspace_bytes() / 4 + 15) / 16 * 16;
      float* scratch = floats(kThreads * scratch_floats);
      const auto each_tile = [&](int64_t head, int worker, auto&& run) {
        for (int64_t row = 0; row + t <= 1024; row += t) {
          float* score = s + worker * 256 * 256;
          const int64_t at = row * kHidden + head * kHead;
          if (kind == 0) {
            run(Call{shape, q + at, k + at, score, false}, worker);
          } else {
            run(Call{shape, score, k + at, o + at, true}, worker);
          }
        }
      };
      std::vector<Candidate> candidates;
      candidates.push_back({"own", [&] {
                              pool.parallel_for(kHeads, [&](int64_t head, int worker) {
                                each_tile(head, worker, [&](const Call& call, int w) {
                                  plan.run_serial(call.a, call.b, call.c, 1.0f, call.accumulate, scratch + w * scratch_floats);
                                });
                              });
                            }, {}, {}});
      for (const Library& lib : libraries) {
        candidates.push_back({lib.name, [&] {
                                pool.parallel_for(kHeads, [&](int64_t head, int worker) {
                                  lib.set_threads(1);
                                  pin(worker);  // libgomp binds every new caller to its first place
                                  each_tile(head, worker, [&](const Call& call, int) { lib.gemm(call); });
                                });
                              }, {}, {}});
      }
      const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k) * kHeads * static_cast<double>(1024 / t);
      measure(pool, name, flops, rounds, candidates);
      std::free(scratch);
    }
  }
  for (float* p : {q, k, o, s}) std::free(p);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const char* filter = argc > 2 ? argv[2] : "";
  // Before the pool pins this thread: libgomp reads its places from the mask that it finds.
  const std::vector<Library> libraries = load_libraries();
  BenchPool pool;
  std::printf("share of FMA peak median/p90, GF/s median/p90; %d rounds\n", rounds);
  bench_large(pool, libraries, rounds, filter);
  bench_tiles(pool, libraries, rounds, filter);
  return 0;
}
