// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/data_schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

DataSchema table_schema() {
  CsvColumns columns{.names = {"a", "b\xff"}, .label = "kind", .classes = {"x", "y"}, .mean = {}, .std = {}};
  columns.mean = {0.1F, std::numeric_limits<float>::infinity()};
  columns.std = {1.0F / 3, std::numeric_limits<float>::quiet_NaN()};
  return {.fields = {{.name = "input", .dtype = "F32", .shape = {2}}, {.name = "target", .dtype = "I64", .shape = {}}},
          .classes = 2,
          .class_names = {"x", "y"},
          .columns = columns};
}

TEST(DataSchema, ComesBackWithEveryNumberAndName) {
  const auto found = parsed_data_schema(to_json(table_schema()));
  ASSERT_EQ(found.fields.size(), 2U);
  EXPECT_EQ(found.fields[0].dtype, "F32");
  EXPECT_EQ(found.fields[0].shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(found.classes, 2);
  EXPECT_EQ(found.columns->names, (std::vector<std::string>{"a", "b\xff"}));
  EXPECT_EQ(found.columns->classes, found.class_names);
  EXPECT_EQ(found.columns->mean, table_schema().columns->mean);
  EXPECT_EQ(found.columns->std[0], 1.0F / 3);
  EXPECT_TRUE(std::isnan(found.columns->std[1]));
}

TEST(DataSchema, RefusesTextOfAnotherForm) {
  for (const char* text : {"", "[]", "{}", R"({"fields":[],"classes":1,"class_names":[],"csv":null})",
                           R"({"fields":[{"name":"input","dtype":"F32","shape":[1]}],"classes":0,"class_names":[],)"
                           R"("csv":{"columns":["a"],"label":"y","mean":[1,2],"std":[]}})"}) {
    EXPECT_HAS(message_of(ErrorKind::kData, [&] { parsed_data_schema(text); }), "cannot be read") << text;
  }
}

}  // namespace
}  // namespace lockstep
