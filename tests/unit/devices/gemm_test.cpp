// The matrix product against a double loop, over shapes with ragged edges and rows apart, on every
// instruction set; equal bits for any number of workers; nothing allocated while it runs.
#include "gemm/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "gemm_pool.hpp"
#include "unit/base/allocation_count.hpp"
#include "unit/devices/instruction_set.hpp"
#include "unit/devices/pool_host.hpp"

namespace megatron::cpu::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = 12345;

// Begins at a multiple of 64 bytes and full of NaN.
class Workspace {
 public:
  explicit Workspace(int64_t bytes)
      : data_(static_cast<float*>(
            std::aligned_alloc(64, static_cast<size_t>(round_up(bytes + 1, 64))))) {
    std::fill_n(data_, bytes / static_cast<int64_t>(sizeof(float)), kNaN);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(data_); }
  void* data() const { return data_; }

 private:
  static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
  float* data_;
};

// Operands whose rows lie `pad` floats apart: NaN in the gaps of a and b, so that a stray read
// shows, and kGuard in those of c, so that a stray write does. Nothing lies behind the last row: a
// read there is a sanitizer's error.
struct Problem {
  Problem(GemmForm form, int64_t m, int64_t n, int64_t k, int64_t pad) {
    const bool tn = form == GemmForm::tn, nt = form == GemmForm::nt;
    shape = {form, m, n, k, (tn ? m : k) + pad, (nt ? k : n) + pad, n + pad};
    fill(a, tn ? k : m, tn ? m : k, pad, kNaN);
    fill(b, nt ? n : k, nt ? k : n, pad, kNaN);
    fill(c, m, n, pad, kGuard);
  }

  void fill(std::vector<float>& v, int64_t rows, int64_t columns, int64_t pad, float gap) {
    v.assign(static_cast<size_t>(rows == 0 ? 0 : rows * (columns + pad) - pad), gap);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t e = 0; e < rows * columns; ++e) {
      v[static_cast<size_t>(e / columns * (columns + pad) + e % columns)] = uniform(random);
    }
  }

  double a_at(int64_t i, int64_t p) const {
    const bool tn = shape.form == GemmForm::tn;
    return static_cast<double>(a[static_cast<size_t>(tn ? p * shape.lda + i : i * shape.lda + p)]);
  }
  double b_at(int64_t p, int64_t j) const {
    const bool nt = shape.form == GemmForm::nt;
    return static_cast<double>(b[static_cast<size_t>(nt ? j * shape.ldb + p : p * shape.ldb + j)]);
  }

  // c before a run: NaN where it must be overwritten.
  std::vector<float> start(bool accumulate) const {
    std::vector<float> out = c;
    for (int64_t e = 0; !accumulate && e < shape.m * shape.n; ++e) {
      out[static_cast<size_t>(e / shape.n * shape.ldc + e % shape.n)] = kNaN;
    }
    return out;
  }
  std::vector<float> run(const PoolHost& pool, float alpha, bool accumulate) const {
    const auto plan = GemmPlan::make(shape);
    const Workspace workspace(plan.workspace_bytes(static_cast<int>(pool.host().workers())));
    auto out = start(accumulate);
    run_gemm(plan, pool.host(), a.data(), b.data(), out.data(), alpha, accumulate,
             workspace.data());
    return out;
  }
  std::vector<float> run_serial(float alpha, bool accumulate) const {
    const auto plan = GemmPlan::make(shape);
    const Workspace workspace(plan.serial_workspace_bytes());
    auto out = start(accumulate);
    plan.run_serial(a.data(), b.data(), out.data(), alpha, accumulate, workspace.data());
    return out;
  }

  // Rounding errors of a sum of k products (Higham 2002, 3.1) grow like √k when they are
  // independent, in units of 2⁻²³ times the sum of the products' magnitudes.
  void expect_close(const std::vector<float>& got, float alpha, bool accumulate) const {
    const double scale = static_cast<double>(alpha);
    const int64_t samples = std::max<int64_t>(1, shape.m * shape.n / 2000);
    for (int64_t e = 0; e < shape.m * shape.n; e += samples) {
      const int64_t i = e / shape.n, j = e % shape.n;
      const auto at = static_cast<size_t>(i * shape.ldc + j);
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < shape.k; ++p) {
        sum += a_at(i, p) * b_at(p, j);
        magnitude += std::fabs(a_at(i, p) * b_at(p, j));
      }
      const double before = accumulate ? static_cast<double>(c[at]) : 0;
      const double bound = 0x1p-23 * (4 + std::sqrt(static_cast<double>(shape.k))) *
                           (std::fabs(scale) * magnitude + std::fabs(before));
      ASSERT_NEAR(static_cast<double>(got[at]), scale * sum + before, bound + 1e-37)
          << "row " << i << " column " << j;
    }
    for (int64_t i = 0; i + 1 < shape.m; ++i) {
      for (int64_t j = shape.n; j < shape.ldc; ++j) {
        ASSERT_EQ(got[static_cast<size_t>(i * shape.ldc + j)], kGuard) << "behind row " << i;
      }
    }
  }

  std::mt19937 random{20240607};
  GemmShape shape;
  std::vector<float> a, b, c;
};

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}

struct Size {
  int64_t m, n, k, pad;
};
constexpr Size kSizes[] = {
    {0, 5, 7, 0},        {5, 0, 7, 0},       {5, 7, 0, 1},  // empty
    {1, 1, 1, 0},        {1, 17, 3, 2},      {7, 1, 5, 0},         {2, 2, 2, 0},
    {3, 31, 4, 1},       {5, 8, 9, 0},       {6, 16, 1, 0},        {11, 48, 33, 3},
    {13, 15, 17, 0},     {64, 64, 64, 704},  {64, 256, 64, 1},     {97, 101, 389, 5},
    {100, 200, 1000, 0}, {257, 131, 770, 0}, {16, 5000, 40, 0},    {1, 50257, 8, 0},
    {50257, 3, 5, 0},    {24, 16, 9001, 1},  {100, 4200, 1100, 0},  // several super-blocks
};

class GemmTest : public ::testing::TestWithParam<std::tuple<GemmForm, Size>> {
 protected:
  Problem problem() const {
    const auto& [form, s] = GetParam();
    return Problem(form, s.m, s.n, s.k, s.pad);
  }
};

TEST_P(GemmTest, MatchesADoubleLoop) {
  const PoolHost pool(2);
  const Problem p = problem();
  for (const int64_t set : instruction_sets()) {
    const UseInstructionSet use(set);
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(instruction_set_name(set) + (accumulate ? ", adding" : ", overwriting"));
      const float alpha = accumulate ? -0.375f : 1;
      p.expect_close(p.run(pool, alpha, accumulate), alpha, accumulate);
      p.expect_close(p.run_serial(alpha, accumulate), alpha, accumulate);
    }
  }
}

TEST_P(GemmTest, SameBitsForAnyNumberOfWorkers) {
  const Problem p = problem();
  const auto want = p.run(PoolHost(1), 0.5f, true);
  for (const uint32_t workers : {2u, 3u, 5u}) {
    EXPECT_TRUE(same_bits(p.run(PoolHost(workers), 0.5f, true), want)) << workers << " workers";
  }
}

// A NaN reaches its whole row or column and nothing else.
TEST_P(GemmTest, ANaNStaysInItsRow) {
  Problem p = problem();
  const auto& s = p.shape;
  if (s.m == 0 || s.n == 0 || s.k == 0) return;  // no product to look at
  const int64_t row = s.m / 2, q = s.k - 1;
  p.a[static_cast<size_t>(s.form == GemmForm::tn ? q * s.lda + row : row * s.lda + q)] = kNaN;
  const auto out = p.run(PoolHost(2), 1, false);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      ASSERT_EQ(std::isnan(out[static_cast<size_t>(i * s.ldc + j)]), i == row)
          << "row " << i << " column " << j;
    }
  }
}

std::string shape_name(const ::testing::TestParamInfo<GemmTest::ParamType>& row) {
  constexpr std::string_view kForms[] = {"nt", "nn", "tn"};
  const auto& [form, s] = row.param;
  return text(kForms[static_cast<size_t>(form)], "_", s.m, "x", s.n, "x", s.k, "_pad", s.pad);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GemmTest,
                         ::testing::Combine(::testing::Values(GemmForm::nt, GemmForm::nn,
                                                              GemmForm::tn),
                                            ::testing::ValuesIn(kSizes)),
                         shape_name);

// Rows of a product do not depend on how many other rows are asked for.
TEST(Gemm, ARowDoesNotDependOnTheirNumber) {
  const Problem all(GemmForm::nn, 77, 100, 300, 0);
  Problem some = all;
  some.shape.m = 5;
  some.c.resize(5 * 100);
  const PoolHost pool(2);
  auto want = all.run(pool, 1, true);
  want.resize(5 * 100);
  EXPECT_TRUE(same_bits(some.run(pool, 1, true), want));
}

TEST(Gemm, RunsWithoutAllocating) {
  if (allocation_count() == 0) GTEST_SKIP() << "the sanitizer owns malloc";
  const PoolHost pool(2);
  for (const auto form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
    Problem p(form, 130, 77, 800, 3);
    const auto plan = GemmPlan::make(p.shape);
    const Workspace workspace(std::max(plan.workspace_bytes(2), plan.serial_workspace_bytes()));
    const auto before = allocation_count();
    run_gemm(plan, pool.host(), p.a.data(), p.b.data(), p.c.data(), 1, false, workspace.data());
    plan.run_serial(p.a.data(), p.b.data(), p.c.data(), 1, true, workspace.data());
    EXPECT_EQ(allocation_count() - before, 0);
  }
}

}  // namespace
}  // namespace megatron::cpu::testing
