// FP32 GEMM of the CPU device against a plain double loop, over shapes with ragged edges; equal
// bits for any number of workers; nothing allocated while running.
#include "gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace {
std::atomic<int64_t> g_allocations{0};
}

// Counts what reaches glibc's allocator, operator new included; sanitizers keep their own malloc.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
constexpr bool kCountsAllocations = true;
#else
constexpr bool kCountsAllocations = false;
#endif

namespace megatron::cpu {
namespace {

// Every worker is a thread that takes the next task; tasks arrive in an order that varies.
class ThreadPool {
 public:
  explicit ThreadPool(int workers) : workers_(workers) {}
  int workers() const { return workers_; }
  template <class F>
  void parallel_for(int64_t tasks, const F& f) {
    std::atomic<int64_t> next{0};
    const auto serve = [&](int worker) {
      for (int64_t t; (t = next.fetch_add(1)) < tasks;) f(t, worker);
    };
    std::vector<std::thread> threads;
    for (int w = 1; w < workers_; ++w) threads.emplace_back(serve, w);
    serve(0);
    for (std::thread& t : threads) t.join();
  }

 private:
  int workers_;
};

// One worker, last task first.
struct BackwardPool {
  int workers() const { return 1; }
  template <class F>
  void parallel_for(int64_t tasks, const F& f) {
    for (int64_t t = tasks; t-- > 0;) f(t, 0);
  }
};

struct AlignedFloats {
  explicit AlignedFloats(int64_t bytes)
      : data(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 127) / 64 * 64)))),
        count(bytes / 4) {
    std::fill_n(data, count, std::numeric_limits<float>::quiet_NaN());
  }
  ~AlignedFloats() { std::free(data); }
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;
  float* data;
  int64_t count;
};

// Operands with padding between rows; padding of A and B is NaN so that a stray read shows, and
// padding of C is kGuard so that a stray write shows.
constexpr float kGuard = 12345.0f;

struct Problem {
  Problem(GemmForm form, int64_t m, int64_t n, int64_t k, int64_t pad) {
    const int64_t a_rows = form == GemmForm::tn ? k : m, a_columns = form == GemmForm::tn ? m : k;
    const int64_t b_rows = form == GemmForm::nt ? n : k, b_columns = form == GemmForm::nt ? k : n;
    shape = {form, m, n, k, a_columns + pad, b_columns + pad, n + pad};
    const auto fill = [&](std::vector<float>& v, int64_t rows, int64_t columns, float gap) {
      // No slack after the last row: a read past the end is then a sanitizer error.
      v.assign(static_cast<size_t>(rows == 0 ? 0 : rows * (columns + pad) - pad), gap);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) v[i * (columns + pad) + j] = uniform(random);
      }
    };
    fill(a, a_rows, a_columns, std::numeric_limits<float>::quiet_NaN());
    fill(b, b_rows, b_columns, std::numeric_limits<float>::quiet_NaN());
    fill(c, m, n, kGuard);
  }

  double product(int64_t i, int64_t j, double* magnitude) const {
    double sum = 0.0;
    *magnitude = 0.0;
    for (int64_t p = 0; p < shape.k; ++p) {
      const double x = shape.form == GemmForm::tn ? a[p * shape.lda + i] : a[i * shape.lda + p];
      const double y = shape.form == GemmForm::nt ? b[j * shape.ldb + p] : b[p * shape.ldb + j];
      sum += x * y;
      *magnitude += std::fabs(x * y);
    }
    return sum;
  }

  // Rounding bound of a k-long sum (Higham 2002, 3.1), with the constant of the usual case.
  void expect_close(const std::vector<float>& got, float alpha, bool accumulate) const {
    const int64_t step = std::max<int64_t>(1, shape.m * shape.n / 4000);  // samples of big results
    for (int64_t e = 0; e < shape.m * shape.n; e += step) {
      const int64_t i = e / shape.n, j = e % shape.n, at = i * shape.ldc + j;
      double magnitude = 0.0;
      const double sum = alpha * product(i, j, &magnitude);
      const double want = sum + (accumulate ? c[at] : 0.0);
      const double bound = 1.2e-7 * (4.0 + std::sqrt(static_cast<double>(shape.k))) *
                           (std::fabs(alpha) * magnitude + std::fabs(want) + 1e-30);
      ASSERT_NEAR(got[at], want, bound) << "row " << i << " column " << j;
    }
    for (int64_t i = 0; i + 1 < shape.m; ++i) {
      for (int64_t j = shape.n; j < shape.ldc; ++j) ASSERT_EQ(got[i * shape.ldc + j], kGuard);
    }
  }

  // C before a run: NaN where it must be overwritten.
  std::vector<float> start(bool accumulate) const {
    std::vector<float> out = c;
    for (int64_t i = 0; !accumulate && i < shape.m; ++i) {
      std::fill_n(out.begin() + i * shape.ldc, shape.n, std::numeric_limits<float>::quiet_NaN());
    }
    return out;
  }

  template <class Pool>
  std::vector<float> run(Pool&& pool, float alpha, bool accumulate) const {
    const GemmPlan plan = GemmPlan::make(shape);
    const AlignedFloats workspace(plan.workspace_bytes(pool.workers()));
    std::vector<float> out = start(accumulate);
    plan.run(pool, a.data(), b.data(), out.data(), alpha, accumulate, workspace.data);
    return out;
  }

  std::vector<float> run_serial(float alpha, bool accumulate) const {
    const GemmPlan plan = GemmPlan::make(shape);
    const AlignedFloats workspace(plan.serial_workspace_bytes());
    std::vector<float> out = start(accumulate);
    plan.run_serial(a.data(), b.data(), out.data(), alpha, accumulate, workspace.data);
    return out;
  }

  std::mt19937 random{20240607};
  std::uniform_real_distribution<float> uniform{-1.0f, 1.0f};
  GemmShape shape;
  std::vector<float> a, b, c;
};

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

struct Size {
  int64_t m, n, k, pad;
};

class GemmTest : public testing::TestWithParam<std::tuple<GemmForm, Size>> {};

TEST_P(GemmTest, MatchesDoubleLoop) {
  const auto& [form, s] = GetParam();
  const Problem problem(form, s.m, s.n, s.k, s.pad);
  for (const bool accumulate : {false, true}) {
    for (const float alpha : {1.0f, -0.375f}) {
      SCOPED_TRACE("alpha " + std::to_string(alpha) + " accumulate " + std::to_string(accumulate));
      problem.expect_close(problem.run(ThreadPool(2), alpha, accumulate), alpha, accumulate);
      problem.expect_close(problem.run_serial(alpha, accumulate), alpha, accumulate);
    }
  }
}

TEST_P(GemmTest, SameBitsForAnyWorkers) {
  const auto& [form, s] = GetParam();
  const Problem problem(form, s.m, s.n, s.k, s.pad);
  const std::vector<float> want = problem.run(BackwardPool(), 0.5f, true);
  for (const int workers : {1, 2, 3, 5}) {
    EXPECT_TRUE(same_bits(problem.run(ThreadPool(workers), 0.5f, true), want)) << workers << " workers";
  }
}

std::string case_name(const testing::TestParamInfo<GemmTest::ParamType>& info) {
  const auto& [form, s] = info.param;
  const char* forms[] = {"nt", "nn", "tn"};
  return std::string(forms[static_cast<int>(form)]) + "_" + std::to_string(s.m) + "x" +
         std::to_string(s.n) + "x" + std::to_string(s.k) + "_pad" + std::to_string(s.pad);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GemmTest,
    testing::Combine(testing::Values(GemmForm::nt, GemmForm::nn, GemmForm::tn),
                     testing::Values(Size{0, 5, 7, 0}, Size{5, 0, 7, 0}, Size{5, 7, 0, 1},  // empty
                                     Size{1, 1, 1, 0}, Size{1, 17, 3, 2}, Size{7, 1, 5, 0},
                                     Size{2, 2, 2, 0}, Size{3, 31, 4, 1}, Size{5, 8, 9, 0},
                                     Size{6, 16, 1, 0}, Size{11, 48, 33, 3}, Size{13, 15, 17, 0},
                                     Size{64, 64, 64, 704}, Size{64, 256, 64, 1}, Size{256, 64, 256, 0},
                                     Size{97, 101, 389, 5}, Size{100, 200, 1000, 0},
                                     Size{257, 131, 770, 0}, Size{16, 5000, 40, 0},
                                     Size{1, 50257, 8, 0}, Size{50257, 3, 5, 0}, Size{24, 16, 9001, 1},
                                     Size{300, 900, 1500, 0})),
    case_name);

// Rows of a product do not depend on how many other rows are asked for.
TEST(Gemm, RowsDoNotDependOnTheirNumber) {
  const Problem all(GemmForm::nn, 77, 100, 300, 0);
  Problem some = all;
  some.shape.m = 5;
  some.c.resize(5 * 100);
  std::vector<float> want = all.run(ThreadPool(2), 1.0f, true);
  want.resize(5 * 100);
  EXPECT_TRUE(same_bits(some.run(ThreadPool(2), 1.0f, true), want));
}

// A pool that allocates nothing itself, so that the count is the plan's own.
TEST(Gemm, RunAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns malloc";
  const int64_t at_start = g_allocations.load();
  delete new int(1);
  ASSERT_GT(g_allocations.load(), at_start) << "the counter does not see operator new";
  struct InlinePool {
    int workers() const { return 1; }
    void parallel_for(int64_t tasks, const GemmTask& f) {
      for (int64_t t = 0; t < tasks; ++t) f(t, 0);
    }
  };
  for (const GemmForm form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
    Problem problem(form, 130, 77, 800, 3);
    const GemmPlan plan = GemmPlan::make(problem.shape);
    const AlignedFloats workspace(std::max(plan.workspace_bytes(1), plan.serial_workspace_bytes()));
    InlinePool pool;
    const int64_t before = g_allocations.load();
    plan.run(pool, problem.a.data(), problem.b.data(), problem.c.data(), 1.0f, false, workspace.data);
    plan.run_serial(problem.a.data(), problem.b.data(), problem.c.data(), 1.0f, true, workspace.data);
    EXPECT_EQ(g_allocations.load(), before);
  }
}

}  // namespace
}  // namespace megatron::cpu
