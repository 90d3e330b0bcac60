// The safetensors format: what we write others read, what others wrote we read, and every kind of
// damage of the header is one clear error.
#include "checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "folder.hpp"

namespace megatron::checkpoint {
namespace {

std::string with_length(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out.append(header).append(data);
}

TEST(Safetensors, WritesTheFormatByteForByte) {
  const Folder folder;
  SafetensorsHeader layout;
  layout.set_metadata("format", "pt");
  layout.declare("b", DType::f32, {2});
  layout.declare("a", DType::u8, {3, 1});
  const std::string data = std::string("\0\0\x80\x3f\0\0\0\x40", 8) + "xyz";
  const auto bytes = std::as_bytes(std::span(data));
  ASSERT_TRUE(SafetensorsFile::create(folder / "f", layout).ok());
  auto file = SafetensorsFile::open(folder / "f", layout);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->write("a", 1, bytes.subspan(9, 2)).ok());  // in any order, part by part
  EXPECT_TRUE(file->write("b", 0, bytes.first(8)).ok());
  EXPECT_TRUE(file->write("a", 0, bytes.subspan(8, 1)).ok());
  EXPECT_TRUE(file->sync().ok());
  std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string expected = with_length(header, data);
  EXPECT_EQ(get(folder / "f"), expected);
}

TEST(Safetensors, ReadsWhatItWrote) {
  const Folder folder;
  SafetensorsHeader layout;
  layout.set_metadata("note", "two\nlines \"quoted\"");
  layout.declare("layers.0.up", DType::f32, {2, 3});
  layout.declare("scalar", DType::f64, {});
  layout.declare("empty", DType::f32, {0, 7});
  std::vector<float> up = {1, 2, 3, 4, 5, 6};
  const double number = 0.1;
  ASSERT_TRUE(SafetensorsFile::create(folder / "f", layout).ok());
  auto out = SafetensorsFile::open(folder / "f", layout);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->write("layers.0.up", 0, std::as_bytes(std::span(up))).ok());
  EXPECT_TRUE(out->write("scalar", 0, std::as_bytes(std::span(&number, 1))).ok());
  const auto file = SafetensorsReader::open(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata().at("note"), "two\nlines \"quoted\"");
  ASSERT_EQ(file->tensors().size(), 3U);
  EXPECT_EQ(file->tensors().at("layers.0.up").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->tensors().at("scalar").dtype, DType::f64);
  std::vector<float> back(6);
  ASSERT_TRUE(file->read("layers.0.up", std::as_writable_bytes(std::span(back))).ok());
  EXPECT_EQ(back, up);
  ASSERT_TRUE(file->read("layers.0.up", 8, std::as_writable_bytes(std::span(back).first(2))).ok());
  EXPECT_EQ(back[0], 3) << "a part, from byte 8 on";
  double n = 0;
  ASSERT_TRUE(file->read("scalar", std::as_writable_bytes(std::span(&n, 1))).ok());
  EXPECT_EQ(n, number);
  EXPECT_EQ(file->read("down", {}).message(),
            text("'", folder / "f", "' has no tensor 'down'\n", "  it holds 3 others\n",
                 "  fix: use the file of the model that has it"));
}

// The data may end while it is read: another process cuts the file.
TEST(Safetensors, NoticesAFileThatShrinks) {
  const Folder folder;
  put(folder / "f",
      with_length(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd"));
  const auto file = SafetensorsReader::open(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::filesystem::resize_file(folder / "f", std::filesystem::file_size(folder / "f") - 1);
  std::byte bytes[4];
  EXPECT_EQ(file->read("a", bytes).message(),
            text("'", folder / "f", "' is not a sound safetensors file\n",
                 "  it was cut short after it had been opened\n",
                 "  fix: restore the file, or use an older checkpoint"));
}

// Written by the scripts of tests/parity with their own code, in F64.
TEST(Safetensors, ReadsAFileOfAnotherWriter) {
  const auto file =
      SafetensorsReader::open(MEGATRON_SOURCE_DIR "/tests/parity/data/adamw.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors().at("matrix.gradient").shape, (std::vector<int64_t>{20, 7, 5}));
  std::vector<double> rates(20);
  ASSERT_TRUE(file->read("learning_rate", std::as_writable_bytes(std::span(rates))).ok());
  EXPECT_DOUBLE_EQ(rates.front(), 1e-3);
  EXPECT_DOUBLE_EQ(rates.back(), 1e-4);
}

struct Damage {
  std::string name;
  std::string bytes;
  std::string cause;
};
std::ostream& operator<<(std::ostream& out, const Damage& d) { return out << d.name; }

class HeaderDamage : public testing::TestWithParam<Damage> {};

TEST_P(HeaderDamage, IsOneClearError) {
  const Folder folder;
  put(folder / "f", GetParam().bytes);
  const auto file = SafetensorsReader::open(folder / "f");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), Code::data_loss);
  EXPECT_EQ(file.status().message(),
            text("'", folder / "f", "' is not a sound safetensors file\n  ", GetParam().cause,
                 "\n  fix: restore the file, or use an older checkpoint"));
}

std::string one(std::string_view entry, std::string_view data = "abcd") {
  return with_length(text("{\"a\":", entry, "}"), data);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, HeaderDamage,
    testing::Values(
        Damage{"empty", "", "it has 0 bytes, a header needs 8"},
        Damage{"seven_bytes", "1234567", "it has 7 bytes, a header needs 8"},
        Damage{"length_beyond_the_file", std::string("\x05\0\0\0\0\0\0\0{}", 10),
               "its header claims 5 bytes, the file has 10"},
        Damage{"a_huge_length", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
               "its header claims 18446744073709551615 bytes, the file has 10"},
        Damage{"no_json", with_length("{\"a\":", ""), "its header is not a JSON object"},
        Damage{"json_of_another_kind", with_length("[1, 2]", ""),
               "its header is not a JSON object"},
        Damage{"an_entry_that_is_no_object", one("7"),
               "entry 'a': [json.exception.type_error.304] cannot use at() with number"},
        Damage{"no_dtype", one(R"({"shape":[4],"data_offsets":[0,4]})"),
               "entry 'a': [json.exception.out_of_range.403] key 'dtype' not found"},
        Damage{"unknown_dtype", one(R"({"dtype":"I128","shape":[4],"data_offsets":[0,4]})"),
               "tensor 'a' has the unknown dtype \"I128\""},
        Damage{"no_offsets", one(R"({"dtype":"U8","shape":[4]})"),
               "entry 'a': [json.exception.out_of_range.403] key 'data_offsets' not found"},
        Damage{"three_offsets", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})"),
               "tensor 'a' claims bytes beyond the 4 that the file holds"},
        Damage{"offsets_reversed", one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"),
               "tensor 'a' claims bytes beyond the 4 that the file holds"},
        Damage{"a_negative_offset", one(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"),
               "tensor 'a' claims bytes beyond the 4 that the file holds"},
        Damage{"offsets_beyond_the_data", one(R"({"dtype":"U8","shape":[4],"data_offsets":[1,5]})"),
               "tensor 'a' claims bytes beyond the 4 that the file holds"},
        Damage{"a_negative_size", one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"),
               "tensor 'a' has 4 bytes, its shape needs another number"},
        Damage{"a_shape_of_another_size",
               one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
               "tensor 'a' has 4 bytes, its shape needs another number"},
        // 2³² · 2³² elements: the product is zero in 64 bits.
        Damage{"a_shape_that_overflows",
               one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", ""),
               "tensor 'a' has 0 bytes, its shape needs another number"},
        Damage{"a_hole",
               with_length(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                           "abc"),
               "tensor 'b' begins at byte 2 of the data, the one before it ends at 1"},
        Damage{"an_overlap",
               with_length(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                           "abc"),
               "tensor 'b' begins at byte 1 of the data, the one before it ends at 2"},
        Damage{"bytes_behind_the_last_tensor",
               one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", "abcde"),
               "its tensors end at byte 4 of the data, the file at 5"},
        Damage{"metadata_that_is_no_text", with_length(R"({"__metadata__":{"a":1}})", ""),
               "entry '__metadata__': [json.exception.type_error.302] type must be string, but is "
               "number"}),
    [](const auto& test) { return test.param.name; });

TEST(Safetensors, SaysWhichFileIsMissing) {
  const auto file = SafetensorsReader::open("/nowhere/model.safetensors");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(),
            "cannot open /nowhere/model.safetensors\n"
            "  the system says: No such file or directory\n"
            "  fix: correct the path, or create the missing file or folder");
}

}  // namespace
}  // namespace megatron::checkpoint
