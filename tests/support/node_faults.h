// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "tests/support/fake_node.h"

namespace lockstep::testing {

using Change = std::function<void(FakeNode&)>;

inline Change variable(const std::string& name, const std::string& value) {
  return [=](FakeNode& node) { node.set(name, value); };
}
inline Change no_variable(const std::string& name) {
  return [=](FakeNode& node) { node.unset(name); };
}
inline Change file(const std::string& name, const std::string& text) {
  return [=](FakeNode& node) { node.write(name, text); };
}
inline Change no_file(const std::string& name) {
  return [=](FakeNode& node) { node.remove(name); };
}

/// A fault of a node, and the finding that `doctor` must report.
struct Fault {
  std::string name{};  ///< Of its test.
  std::string code{};
  std::string fact{};  ///< A part of it.
  Change broken{};
  Change mended{};  ///< If that takes more than undoing the fault.
};

inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.code; }

/// Expects that `doctor` does not report the fault on `node`, reports it after the node is broken, and does not report
/// it after the node is mended.
inline void expect_fault(FakeNode& node, const Fault& fault) {
  EXPECT_EQ(found(node.findings(), fault.code), nullptr) << "before it was broken";
  fault.broken(node);
  const auto findings = node.findings();
  const auto* finding = found(findings, fault.code);
  ASSERT_NE(finding, nullptr) << "found instead:\n" << listed(findings);
  EXPECT_HAS(finding->fact, fault.fact);
  EXPECT_FALSE(finding->fix.empty());
  if (!fault.mended) return;
  fault.mended(node);
  EXPECT_EQ(found(node.findings(), fault.code), nullptr) << "after it was mended:\n" << listed(node.findings());
}

template <typename Node>
struct FaultTest : ::testing::TestWithParam<Fault> {
  Node node;
};

}  // namespace lockstep::testing

/// Registers a test `suite.IsFound/NAME` for each of `faults`. Each test has a new `Node`.
#define FAULT_TESTS(suite, Node, faults)                     \
  struct suite : ::lockstep::testing::FaultTest<Node> {};    \
  TEST_P(suite, IsFound) { expect_fault(node, GetParam()); } \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(faults), [](const auto& fault) { return fault.param.name; })
