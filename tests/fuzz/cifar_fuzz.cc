// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/data/source/cifar_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const auto kind : {lockstep::CifarKind::k10, lockstep::CifarKind::k100}) {
    for (const auto parse : {lockstep::parse_cifar, lockstep::parse_cifar_pickle}) {
      try {
        const auto images = parse(bytes, kind, "fuzz");
        for (std::int64_t i = 0; i < images.size(); ++i) {
          LOCKSTEP_ASSERT(images.image(i).size() == lockstep::kCifarImageBytes);
          LOCKSTEP_ASSERT(images.labels[static_cast<std::size_t>(i)] < static_cast<int>(kind));
        }
      } catch (const lockstep::Error& error) {
        if (error.kind() != lockstep::ErrorKind::kData) throw;
      }
    }
  }
  return 0;
}
