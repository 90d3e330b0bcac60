#include "data/json_record.hpp"

#include <nlohmann/json.hpp>

namespace megatron::data {
namespace {

using nlohmann::json;

// Listens to the parser instead of building a tree: a record of several fields costs one string.
class KeyFinder : public nlohmann::json_sax<json> {
 public:
  KeyFinder(std::span<const std::string> keys, std::vector<std::string>& texts)
      : keys_(keys), texts_(texts), kinds_(keys.size(), "") {
    texts.resize(keys.size());
  }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(int64_t) override { return value("a number"); }
  bool number_unsigned(uint64_t) override { return value("a number"); }
  bool number_float(double, const std::string&) override { return value("a number"); }
  bool binary(json::binary_t&) override { return value("binary"); }
  bool string(std::string& s) override {
    if (depth_ == 1 && wanted_ < keys_.size()) texts_[wanted_].swap(s);
    return value("a string");
  }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    wanted_ = 0;
    while (wanted_ < keys_.size() && keys_[wanted_] != name) ++wanted_;
    return true;
  }
  bool start_object(size_t) override {
    value("an object");
    return ++depth_, true;
  }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override {
    value("an array");
    return ++depth_, true;
  }
  bool end_array() override { return leave(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    const std::string_view what = e.what();
    const auto column = what.find("column");
    error_ = what.substr(column == std::string_view::npos ? 0 : column);
    return false;
  }

  const std::string& error() const { return error_; }
  std::string_view top() const { return top_; }                    // what the line is
  std::string_view kind(size_t key) const { return kinds_[key]; }  // "" = the key is missing

 private:
  bool value(std::string_view kind) {
    if (depth_ == 0) top_ = kind;
    if (depth_ == 1 && top_ == "an object" && wanted_ < keys_.size()) kinds_[wanted_] = kind;
    if (depth_ == 1) wanted_ = keys_.size();
    return true;
  }
  bool leave() { return --depth_, true; }

  std::span<const std::string> keys_;
  std::vector<std::string>& texts_;
  std::vector<std::string_view> kinds_;
  std::string_view top_;
  std::string error_;
  int depth_ = 0;
  size_t wanted_ = SIZE_MAX;
};

std::string keys_present(std::string_view line) {
  constexpr size_t kMost = 12;
  const auto object = json::parse(line);
  if (object.empty()) return "the object is empty";
  std::string out = "the object has: ";
  size_t count = 0;
  for (const auto& [key, value] : object.items()) {
    if (count == kMost) return out + ", …";
    out += text(count++ > 0 ? ", " : "", key);
  }
  return out;
}

}  // namespace

Status read_json_record(std::string_view line, std::span<const std::string> keys,
                        std::string_view where, std::vector<std::string>& texts) {
  KeyFinder finder(keys, texts);
  if (!json::sax_parse(line.begin(), line.end(), &finder)) {
    return Status::error(Code::data_loss, text(where, ": not valid JSON"), finder.error(),
                         "write one JSON object a line, or skip bad records");
  }
  if (finder.top() != "an object") {
    return Status::error(Code::data_loss, text(where, ": not a JSON object"),
                         text("the line is ", finder.top()),
                         "write one JSON object a line, or skip bad records");
  }
  for (size_t k = 0; k < keys.size(); ++k) {
    if (finder.kind(k).empty()) {
      return Status::error(Code::data_loss, text(where, ": no key '", keys[k], "'"),
                           keys_present(line),
                           "name a key that every line has, or skip bad records");
    }
    if (finder.kind(k) != "a string") {
      return Status::error(Code::data_loss, text(where, ": key '", keys[k], "' holds no text"),
                           text("its value is ", finder.kind(k)),
                           "name a key with a string, or skip bad records");
    }
  }
  return {};
}

}  // namespace megatron::data
