// Writes a program op by op, with types inferred and checked, and offers the same to plugins as the
// ABI's builder table.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "megatron/abi/graph.h"

namespace megatron::graph {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }
  // Goes on writing a program, for passes that append to one.
  explicit ProgramBuilder(Program program);

  Result<ValueId> parameter(std::string_view name, Type type, Initializer init,
                            bool trainable = true);
  Result<ValueId> input(std::string_view name, Type type);
  Result<ValueId> state(std::string_view name, Type type);
  // The named scalar; the same one when asked again.
  ValueId scalar(std::string_view name);
  ValueId constant(double value);
  Result<std::vector<ValueId>> op(std::string_view name, std::vector<ValueId> inputs,
                                  Attrs attrs = {});
  // The same for plugins, who cannot write the ops that passes insert.
  Result<std::vector<ValueId>> public_op(std::string_view name, std::vector<ValueId> inputs,
                                         Attrs attrs = {});
  // The same for one-result ops that the host itself writes and that cannot fail.
  ValueId op1(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  Status output(std::string_view name, ValueId value);
  Status loss(std::string_view name, ValueId sum, ValueId count, double weight);

  void push_scope(std::string_view name) { scopes_.emplace_back(name); }
  Status pop_scope();
  Status begin_block(int64_t index);
  Status end_block();
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  int64_t block() const { return block_; }
  // Nodes written from now on carry the place of `node`.
  void set_place(const Node& node);

  Program& program() { return program_; }
  // Checks that scopes are closed and the program verifies.
  Result<Program> finish() &&;
  // The ABI's table over this builder, with the public ops; valid while both live.
  mgt_builder table();

 private:
  Status check_value(ValueId value, std::string_view what) const;
  Status add_name(std::set<std::string, std::less<>>& names, std::string_view name,
                  std::string_view what) const;
  Status declare(std::string_view name, const Type& type, std::string_view what);
  Result<std::vector<ValueId>> write(const OpDef* row, std::string_view name,
                                     std::vector<ValueId> inputs, Attrs attrs);
  std::string scope() const;

  Program program_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> results_;  // outputs and loss terms
  std::vector<std::string> scopes_;
  int64_t block_ = -1;
  bool in_block_ = false;
  Phase phase_ = Phase::forward;
  std::string fixed_scope_;
};

}  // namespace megatron::graph
