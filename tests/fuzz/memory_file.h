// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <filesystem>
#include <span>
#include <string>

#include "lockstep/base/file.h"

namespace lockstep {

/// A file in memory with these bytes. It has a path, for readers that need one, and no disk is used.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    write_all(file_.get(), std::as_bytes(std::span(data, size)), path());
  }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  FileDescriptor file_;
};

/// Reads every sample of a source.
template <typename Source>
void read_all(const Source& source) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> to;
  for (const auto& field : source.fields()) to.push_back(memory.emplace_back(field.bytes()).data());
  for (std::int64_t id = 0; id < source.size(); ++id) source.read({.seed = 1, .epoch = 0, .id = id}, to);
}

}  // namespace lockstep
