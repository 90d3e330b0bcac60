#include "vocabulary.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "byte_alphabet.hpp"
#include "megatron/file.hpp"

namespace megatron::gpt2 {
namespace {

constexpr std::string_view kDownloadAgain =
    "take vocab.json and merges.txt from one release of the tokenizer";

using IdOfToken = std::unordered_map<std::string, int32_t>;

Result<std::string> read_file(const std::string& path) {
  MGT_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Every id from 0 on must be taken exactly once.
Result<IdOfToken> read_tokens(const std::string& path) {
  MGT_ASSIGN_OR_RETURN(const auto contents, read_file(path));
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(contents);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string_view what = e.what();
    const auto from = what.find("parse error");
    return Status::error(Code::data_loss, text(path, ": not valid JSON"),
                         what.substr(from == std::string_view::npos ? 0 : from), kDownloadAgain);
  }
  if (!json.is_object() || json.empty()) {
    return Status::error(Code::data_loss, text(path, ": not a vocabulary"),
                         "it must be one JSON object of token: id", kDownloadAgain);
  }
  IdOfToken ids;
  std::vector<const std::string*> token_of(json.size(), nullptr);
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= static_cast<int64_t>(json.size())) {
      return Status::error(Code::data_loss, text(path, ": token '", token, "' has no proper id"),
                           text("it is ", id.dump(), "; ", json.size(),
                                " tokens have the ids 0 to ", json.size() - 1),
                           kDownloadAgain);
    }
    const auto [entry, is_new] = ids.emplace(token, id.get<int32_t>());
    auto& first = token_of[id.get<size_t>()];
    if (first != nullptr) {
      return Status::error(Code::data_loss,
                           text(path, ": id ", id.get<int64_t>(), " is given twice"),
                           text("to '", *first, "' and to '", token, "'"), kDownloadAgain);
    }
    first = &entry->first;
  }
  return ids;
}

Status bad_line(const std::string& path, size_t line, std::string_view cause) {
  return Status::error(Code::data_loss, text(path, ":", line, ": not a merge of this vocabulary"),
                       cause, kDownloadAgain);
}

// A line is two tokens whose concatenation is a token; the first line may be a #version comment.
Result<PairTable> read_merges(const std::string& path, const IdOfToken& ids) {
  MGT_ASSIGN_OR_RETURN(auto contents, read_file(path));
  std::istringstream in(std::move(contents));
  PairTable merges(ids.size());
  std::string line;
  int32_t rank = 0;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const auto space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      return bad_line(path, number, "a line must hold two tokens with one space between them");
    const auto left = line.substr(0, space), right = line.substr(space + 1);
    std::optional<int32_t> parts[3];
    const std::string* names[] = {&left, &right, nullptr};
    const std::string joined = left + right;
    names[2] = &joined;
    for (size_t i = 0; i < 3; ++i) {
      const auto found = ids.find(*names[i]);
      if (found == ids.end())
        return bad_line(path, number, text("the vocabulary has no token '", *names[i], "'"));
      parts[i] = found->second;
    }
    if (static_cast<size_t>(rank) >= ids.size())
      return bad_line(path, number, "there are more merges than tokens");
    if (!merges.insert(*parts[0], *parts[1], {rank, *parts[2]}))
      return bad_line(path, number, text("'", line, "' was given before"));
    ++rank;
  }
  if (rank == 0) {
    return Status::error(Code::data_loss, text(path, ": no merges"),
                         "without them every byte would become a token", kDownloadAgain);
  }
  return merges;
}

std::string letter(uint16_t code_point) {  // in UTF-8
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

}  // namespace

Result<Vocabulary> load_vocabulary(const std::string& vocab_file, const std::string& merge_file,
                                   const std::string& eod_token) {
  MGT_ASSIGN_OR_RETURN(const auto ids, read_tokens(vocab_file));
  Vocabulary vocabulary;
  vocabulary.bytes.resize(ids.size());
  for (const auto& [token, id] : ids) {
    // A token with characters outside the alphabet was added by hand; it stands for itself.
    vocabulary.bytes[static_cast<size_t>(id)] = bytes_of_letters(token).value_or(token);
  }
  for (size_t b = 0; b < 256; ++b) {
    const auto found = ids.find(letter(kLetterOfByte[b]));
    if (found == ids.end()) {
      return Status::error(Code::data_loss, text(vocab_file, ": no token for byte ", b),
                           "a byte-level vocabulary has one for each of the 256 bytes",
                           kDownloadAgain);
    }
    vocabulary.id_of_byte[b] = found->second;
  }
  const auto eod = ids.find(eod_token);
  if (eod == ids.end()) {
    return invalid_argument(text(vocab_file, ": no token '", eod_token, "'"),
                            "it is named as the end of a document",
                            "set eod_token to a token of this vocabulary");
  }
  vocabulary.eod = eod->second;
  MGT_ASSIGN_OR_RETURN(vocabulary.merges, read_merges(merge_file, ids));
  return vocabulary;
}

}  // namespace megatron::gpt2
