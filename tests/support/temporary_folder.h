// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::testing {

/// A new folder for one test. The destructor removes it. `name` is the path of the folder around it, and ends in '/'.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string name = ::testing::TempDir()) {
    name += "lockstep test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kEnvironment, "cannot make a folder such as " + name + ": " + std::strerror(errno));
    }
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns the message of the Error that `action` throws. The test fails if `action` throws nothing, or an Error of
/// another kind.
template <typename Action>
std::string message_of(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

}  // namespace lockstep::testing

/// Expects `part` somewhere in `text`.
#define EXPECT_HAS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string(part), std::string(text))
