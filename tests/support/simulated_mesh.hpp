// Collectives between threads of one process: every rank of a layout runs in a thread and meets the
// others here. Results do not depend on timing: sums are taken in the order of ranks.
#pragma once

#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "passes/layout.hpp"
#include "runtime/collectives.hpp"

namespace megatron::test {

class SimulatedMesh {
 public:
  explicit SimulatedMesh(passes::Layout layout) : layout_(std::move(layout)) {}

  // The collectives of one rank; valid while the mesh lives.
  std::unique_ptr<runtime::Collectives> rank(int64_t rank) {
    return std::make_unique<Rank>(*this, rank);
  }
  // Ranks that wait for another one get an error.
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  // Bytes that left ranks, by mesh axis.
  const std::map<std::string, int64_t>& sent_bytes() const { return sent_bytes_; }

 private:
  // Where the members of one group meet: each leaves its buffer and waits for the others.
  struct Meeting {
    std::map<int64_t, std::vector<char>> contributions;
    int64_t readers = 0;
  };

  class Rank final : public runtime::Collectives {
   public:
    Rank(SimulatedMesh& mesh, int64_t rank)
        : mesh_(mesh), coordinates_(mesh.layout_.coordinates(rank)) {}

    Status run(const runtime::Collective& what, const void* send, void* recv) override {
      const auto axis = mesh_.layout_.axis(what.axis);
      MGT_CHECK(axis.has_value(), what.axis);
      const int64_t me = coordinates_[*axis];
      const int64_t size = mesh_.layout_.axes[*axis].size;
      const std::string group = group_name(*axis);
      if (what.op == "send")
        return mesh_.post(message(group, me, what.peer, what.name), send,
                          bytes(what, what.send_elements), what.axis);
      if (what.op == "recv") return mesh_.take(message(group, what.peer, me, what.name), recv);
      const int64_t n = calls_[group]++;
      const auto parts = mesh_.exchange(group + "/" + std::to_string(n), me, size, send,
                                        bytes(what, what.send_elements), what.axis);
      if (what.op == "ring_shift") {
        copy(recv, parts[static_cast<size_t>((me - what.offset % size + size) % size)]);
      } else if (what.op == "all_gather") {
        char* at = static_cast<char*>(recv);
        for (const auto& part : parts) {
          copy(at, part);
          at += part.size();
        }
      } else if (what.op == "all_to_all") {
        char* at = static_cast<char*>(recv);
        for (const auto& part : parts) {
          const size_t block = part.size() / parts.size();
          std::memcpy(at, part.data() + static_cast<size_t>(me) * block, block);
          at += block;
        }
      } else if (what.op == "all_reduce") {
        reduce(what, parts, 0, static_cast<float*>(recv));
      } else if (what.op == "reduce_scatter") {
        reduce(what, parts, me * what.recv_elements, static_cast<float*>(recv));
      } else {
        return Status(Code::unimplemented, text("collective '", what.op, "'"));
      }
      return {};
    }

    Status complete_send(const void*) override { return {}; }  // the message was copied

    Status gather(std::string_view axis_name, std::string_view, std::span<const double> values,
                  std::span<double> all) override {
      runtime::Collective what;
      what.op = "all_gather";
      what.axis = axis_name;
      what.dtype = DType::f64;
      what.send_elements = static_cast<int64_t>(values.size());
      return run(what, values.data(), all.data());
    }

   private:
    static int64_t bytes(const runtime::Collective& what, int64_t elements) {
      return elements * static_cast<int64_t>(dtype_size(what.dtype));
    }
    static void copy(void* to, const std::vector<char>& from) {
      std::memcpy(to, from.data(), from.size());
    }
    // Ranks that differ in `axis` alone.
    std::string group_name(size_t axis) const {
      std::string name = mesh_.layout_.axes[axis].name;
      for (size_t m = 0; m < coordinates_.size(); ++m) {
        name += m == axis ? std::string(",*") : "," + std::to_string(coordinates_[m]);
      }
      return name;
    }
    static std::string message(const std::string& group, int64_t from, int64_t to,
                               std::string_view tag) {
      return text(group, " ", from, "->", to, " ", tag);
    }
    static void reduce(const runtime::Collective& what, const std::vector<std::vector<char>>& parts,
                       int64_t first, float* out) {
      const auto at = [&](size_t part, int64_t i) {
        float x;
        std::memcpy(&x, parts[part].data() + (first + i) * 4, 4);
        return x;
      };
      for (int64_t i = 0; i < what.recv_elements; ++i) {
        float value = at(0, i);
        for (size_t p = 1; p < parts.size(); ++p) {
          const float x = at(p, i);
          value = what.reduce == graph::Reduce::max ? std::max(value, x) : value + x;
        }
        out[i] = value;
      }
    }

    SimulatedMesh& mesh_;
    std::vector<int64_t> coordinates_;
    std::map<std::string, int64_t> calls_;
  };

  std::vector<std::vector<char>> exchange(const std::string& key, int64_t me, int64_t size,
                                          const void* data, int64_t bytes, std::string_view axis) {
    std::unique_lock lock(mutex_);
    sent_bytes_[std::string(axis)] += bytes;
    auto& meeting = meetings_[key];
    const char* begin = static_cast<const char*>(data);
    meeting.contributions[me].assign(begin, begin + bytes);
    changed_.notify_all();
    changed_.wait(lock, [&] {
      return aborted_ || static_cast<int64_t>(meetings_[key].contributions.size()) == size;
    });
    if (aborted_) throw StatusError(Status(Code::aborted, "another rank failed"));
    std::vector<std::vector<char>> parts;
    for (const auto& [rank, part] : meetings_[key].contributions) parts.push_back(part);
    if (++meetings_[key].readers == size) meetings_.erase(key);
    return parts;
  }
  Status post(const std::string& key, const void* data, int64_t bytes, std::string_view axis) {
    const std::lock_guard lock(mutex_);
    sent_bytes_[std::string(axis)] += bytes;
    const char* begin = static_cast<const char*>(data);
    messages_[key].emplace_back(begin, begin + bytes);
    changed_.notify_all();
    return {};
  }
  Status take(const std::string& key, void* out) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || !messages_[key].empty(); });
    if (aborted_) return Status(Code::aborted, "another rank failed");
    auto& queue = messages_[key];
    std::memcpy(out, queue.front().data(), queue.front().size());
    queue.erase(queue.begin());
    return {};
  }

  passes::Layout layout_;
  std::mutex mutex_;
  bool aborted_ = false;
  std::condition_variable changed_;
  std::map<std::string, Meeting> meetings_;
  std::map<std::string, std::vector<std::vector<char>>> messages_;
  std::map<std::string, int64_t> sent_bytes_;
};

}  // namespace megatron::test
