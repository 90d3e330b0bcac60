// What a plugin can declare wrongly, and what it is told.
#include "config/schema.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace megatron::config {
namespace {

constexpr mgt_str kChoices[] = {{"a", 1}, {"b", 1}};

std::string cause_of(const Option& declared) {
  const auto schema = Schema::from_abi("bad", &declared, 1);
  if (schema.ok()) return "";
  EXPECT_EQ(schema.status().code(), Code::failed_precondition);
  const std::string message(schema.status().message());
  const auto begin = message.find("\n  ") + 3;
  return message.substr(begin, message.find('\n', begin) - begin);
}

TEST(Schema, DefectsOfADeclaration) {
  struct {
    Option declared;
    const char* cause;
  } const cases[] = {
      {option("lr", MGT_OPTION_FLOAT, "1", ""), ""},
      {option("Lr", MGT_OPTION_FLOAT, "1", ""), "a key is lower-case letters, digits and '_'"},
      {option("", MGT_OPTION_FLOAT, "1", ""), "a key is lower-case letters, digits and '_'"},
      {option("lr", 99, "1", ""), "its type 99 is none that this host knows"},
      {option("lr", MGT_OPTION_FLOAT, "x", ""), "its default x is not a TOML value"},
      {option("lr", MGT_OPTION_FLOAT, "\"x\"", ""),
       "its default \"x\" is not a float: 'lr' takes a float, and this is a string"},
      {option("lr", MGT_OPTION_FLOAT, "2", "").at_most(1),
       "its default 2 is out of range: 'lr' must be at most 1"},
      {option("lr", MGT_OPTION_STRING, "\"c\"", "").one_of(kChoices),
       "its default \"c\" is not one of the choices: choices: \"a\", \"b\""},
      {option("lr", MGT_OPTION_FLOAT, "", ""),
       "it has no default, is not required, and a float has no empty value"},
      {option("lr", MGT_OPTION_FLOAT, "1", "").required(), "it is required and has a default"},
      {option("lr", MGT_OPTION_STRING, "", "").at_least(0), "it has a range and is a string"},
      {option("lr", MGT_OPTION_INT, "1", "").one_of(kChoices), "it has choices and is an integer"},
      {option("lr", MGT_OPTION_INT, "1", "").at_least(2).at_most(1), "its range is empty"},
  };
  for (const auto& c : cases) EXPECT_EQ(cause_of(c.declared), c.cause);
}

TEST(Schema, AllDefectsAreReportedWithTheirPlugin) {
  const Option options[] = {option("lr", MGT_OPTION_FLOAT, "x", ""),
                            option("ok", MGT_OPTION_FLOAT, "1", ""),
                            option("ok", MGT_OPTION_FLOAT, "1", "")};
  const auto schema = Schema::from_abi("bad", options, 3);
  ASSERT_FALSE(schema.ok());
  EXPECT_EQ(schema.status().message(),
            "plugin 'bad' declares its option 'lr' wrongly\n"
            "  its default x is not a TOML value\n"
            "  fix: correct the option in the plugin's MEGATRON_PLUGIN(...) and rebuild it\n"
            "plugin 'bad' declares its option 'ok' wrongly\n"
            "  another option has the same key\n"
            "  fix: correct the option in the plugin's MEGATRON_PLUGIN(...) and rebuild it");
}

TEST(Schema, TextAndListsMayBeEmptyByDefault) {
  const Option options[] = {
      option("s", MGT_OPTION_STRING, "", ""), option("p", MGT_OPTION_PATH, "", ""),
      option("i", MGT_OPTION_INT_LIST, "", ""), option("f", MGT_OPTION_FLOAT_LIST, "", ""),
      option("l", MGT_OPTION_STRING_LIST, "", "")};
  const auto schema = Schema::from_abi("x", options, std::size(options));
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  EXPECT_EQ(schema->find("s")->default_value, Value(std::string()));
  EXPECT_EQ(schema->find("p")->default_value, Value(std::string()));
  EXPECT_EQ(schema->find("i")->default_value, Value(std::vector<int64_t>()));
  EXPECT_EQ(schema->find("f")->default_value, Value(std::vector<double>()));
  EXPECT_EQ(schema->find("l")->default_value, Value(std::vector<std::string>()));
}

// A plugin of a later sdk: longer structs, fields that this host does not know.
TEST(Schema, StrideIsThatOfThePlugin) {
  struct Later {
    mgt_option option;
    uint64_t younger_field;
  };
  Later options[2];
  const char* keys[] = {"one", "two"};
  for (int i = 0; i < 2; ++i) {
    options[i] = {option(keys[i], MGT_OPTION_INT, "1", ""), ~uint64_t{0}};
    options[i].option.struct_size = sizeof(Later);
  }
  const auto schema = Schema::from_abi("later", &options[0].option, 2);
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  EXPECT_EQ(schema->keys(), (std::vector<std::string>{"one", "two"}));
}

TEST(Schema, StructSizeTooSmall) {
  Option declared = option("lr", MGT_OPTION_FLOAT, "1", "");
  declared.struct_size = 8;
  EXPECT_EQ(cause_of(declared),
            text("its struct_size is 8, and the smallest is ", sizeof(mgt_option)));
}

TEST(Schema, RangeText) {
  const auto range = [](const Option& o) {
    const Schema schema = Schema::of({o});
    return range_text(schema.options()[0]);
  };
  EXPECT_EQ(range(option("x", MGT_OPTION_FLOAT, "0.5", "")), "");
  EXPECT_EQ(range(option("x", MGT_OPTION_FLOAT, "0.5", "").above(0)), "above 0");
  EXPECT_EQ(range(option("x", MGT_OPTION_FLOAT, "0.5", "").at_least(0.25).below(1)),
            "at least 0.25 and below 1");
}

}  // namespace
}  // namespace megatron::config
