// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/format/torch/file.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle.h"

namespace {

using Bytes = std::span<const std::byte>;

void look(const lockstep::TorchTensors& found) {
  for (const auto& tensor : found.tensors) {
    std::uint64_t bytes = lockstep::dtype_bytes(tensor.dtype);
    for (const auto part : tensor.shape) bytes *= static_cast<std::uint64_t>(part);
    LOCKSTEP_ASSERT(bytes == tensor.bytes.size());
    lockstep::xxh3_64(tensor.bytes);  // Reads them all.
  }
}

lockstep::TorchTensors tensors_of_pickle(Bytes bytes) {
  static constexpr std::array<std::byte, 4096> kStorage{};
  const auto pickle = lockstep::Pickle::read(bytes, "fuzz", lockstep::is_torch_name);
  const auto storage = [](const lockstep::TorchStorage& wanted) {
    return wanted.bytes <= kStorage.size() ? Bytes(kStorage).first(wanted.bytes) : Bytes();
  };
  return lockstep::torch_tensors(pickle.root(), "fuzz", storage, kStorage.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  // Reads the bytes twice: as a file, and as the pickle in a zip file, whose checksum a fuzzer cannot guess.
  for (auto* read : {+[](Bytes file) { return lockstep::parse_torch_file(file, "fuzz"); }, &tensors_of_pickle}) {
    try {
      look(read(bytes));
    } catch (const lockstep::Error& error) {
      if (error.kind() != lockstep::ErrorKind::kData) throw;
    }
  }
  return 0;
}
