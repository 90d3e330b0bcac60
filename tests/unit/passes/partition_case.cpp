#include "partition_case.hpp"

#include <sstream>

#include "graph/text.hpp"
#include "passes/autodiff.hpp"
#include "passes/partition.hpp"
#include "passes/pipeline_cut.hpp"

namespace megatron::test {
namespace {

using passes::Place;

struct Request {
  passes::Layout layout;
  passes::PartitionRequest partition;
  passes::PipelineCut cut;
  int64_t stage = 0;
  int64_t rank = 0;
  bool differentiate = false;
};

// "data:flat": everywhere else whole.
passes::Placement read_placement(const passes::Layout& layout, const std::string& s) {
  passes::Placement placement(layout.axes.size());
  const auto colon = s.find(':');
  const auto axis = layout.axis(s.substr(0, colon));
  MGT_CHECK(axis.has_value(), s);
  const std::string kind = s.substr(colon + 1);
  MGT_CHECK(kind == "partial" || kind == "flat", s);
  placement[*axis] = kind == "flat" ? Place::flat() : Place::partial();
  return placement;
}

void read_line(const std::string& key, std::istringstream& words, Request& r) {
  std::string a;
  std::string word;
  int64_t n = 0;
  if (key == "axis") {
    words >> a >> n;
    r.layout.axes.push_back({a, n});
  } else if (key == "map") {
    passes::AxisMapping mapping;
    words >> mapping.logical >> mapping.mesh;
    while (words >> word) {
      if (word == "balanced") mapping.cut = Cut::balanced;
      if (word == "secondary") mapping.secondary = true;
      if (word == "instances") mapping.instances = true;
    }
    r.layout.mappings.push_back(mapping);
  } else if (key == "multiple") {
    words >> a >> n;
    r.layout.multiples[a] = n;
  } else if (key == "zero") {
    words >> r.layout.zero_axis >> r.layout.zero_stage;
  } else if (key == "ring") {
    words >> r.layout.ring_axis;
  } else if (key == "pipeline") {
    words >> r.layout.pipeline_axis;
  } else if (key == "state") {
    words >> a >> word;
    r.partition.states[a] = read_placement(r.layout, word);
  } else if (key == "differentiate") {
    r.differentiate = true;
  } else if (key == "whole_outputs") {
    r.partition.whole_outputs = true;
  } else if (key == "rank") {
    words >> r.rank;
  } else if (key == "stages") {
    while (words >> n) r.cut.first_block.push_back(n);
    r.cut.ranks = r.cut.stages();
  } else if (key == "stage") {
    words >> r.stage;
  } else {
    MGT_CHECK(false, "unknown line of a layout: " + key);
  }
}

Request read_request(const Case& c) {
  Request r;
  std::istringstream lines{std::string(c.part("layout"))};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    read_line(key, words, r);
  }
  r.partition.coordinates = r.layout.coordinates(r.rank);
  r.cut.axis = "pipeline";
  return r;
}

}  // namespace

Result<std::string> partition_case(const graph::Program& program, const Case& c) {
  Request r = read_request(c);
  r.partition.layout = &r.layout;
  graph::Program logical = program;
  if (r.differentiate) {
    MGT_ASSIGN_OR_RETURN(logical, passes::differentiate(std::move(logical)));
  }
  MGT_ASSIGN_OR_RETURN(const auto out, passes::partition(logical, r.partition));
  std::string text_out = graph::print(out.program);
  for (const auto& [name, placement] : out.placements)
    text_out += text(name, ": ", passes::to_string(r.layout, placement), "\n");
  return text_out;
}

Result<std::string> pipeline_case(const graph::Program& program, const Case& c) {
  const Request r = read_request(c);
  MGT_ASSIGN_OR_RETURN(const auto out, passes::cut_stage(program, r.cut, r.stage));
  return graph::print(out);
}

}  // namespace megatron::test
