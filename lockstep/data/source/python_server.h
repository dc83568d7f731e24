// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/data/source/python_source.h"

namespace lockstep {

/// A worker process: its socket, and memory of ours that it writes samples into. It ends when this is destroyed.
class PythonWorker {
 public:
  PythonWorker(FileDescriptor socket, void* memory, std::size_t bytes);
  PythonWorker(PythonWorker&& other) noexcept;
  PythonWorker(const PythonWorker&) = delete;
  PythonWorker& operator=(const PythonWorker&) = delete;
  PythonWorker& operator=(PythonWorker&&) = delete;
  ~PythonWorker();

  /// Sends bytes. Returns false if the worker is gone.
  bool send(const void* bytes, std::size_t size) const;

  /// Returns the worker's next message, which is empty after a sample that it has written.
  ///
  /// Blocks: until it is there. Throws: the error that the worker tells; Error(kEnvironment) if it is gone.
  nlohmann::json next_message() const;

  const std::byte* memory() const { return memory_; }

 private:
  FileDescriptor socket_;
  std::byte* memory_;
  std::size_t bytes_;
};

/// The process that has imported the user's code, which forks the workers. It ends when this is destroyed.
class PythonServer {
 public:
  /// Throws: Error(kEnvironment) if the Python cannot be started.
  explicit PythonServer(const PythonData& data);
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;
  ~PythonServer();

  /// Returns the server of a data set, one for all of its parts.
  static std::shared_ptr<PythonServer> shared(const PythonData& data);

  /// Opens a part, and returns what the server says of it. Threads: any, here and below.
  nlohmann::json open(const std::string& split, std::uint64_t seed);

  /// Forks a worker that shares `bytes` of memory with us. `wanted` says which part it reads, and how.
  PythonWorker fork(const nlohmann::json& wanted, std::size_t bytes);

  const PythonData& data() const { return data_; }

 private:
  PythonData data_;
  std::mutex mutex_;
  FileDescriptor control_;
  pid_t process_ = -1;
};

}  // namespace lockstep
