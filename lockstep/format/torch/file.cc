// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle.h"
#include "lockstep/format/torch/zip_file.h"

namespace lockstep {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kDamaged = "the file is damaged or was not written whole; copy it again";

// The most bytes of copies for tensors that are not contiguous, beyond the file's size. It leaves room for small
// expanded tensors.
constexpr std::uint64_t kCopiedBeyondFile = std::uint64_t{16} << 20U;

// The first bytes of a file that PyTorch wrote before version 1.6: a pickle of the number 0x1950a86a20f9469cfc6c.
constexpr std::array<unsigned char, 15> kLegacyMagic = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                        0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
constexpr std::int64_t kLegacyVersion = 1001;

[[noreturn]] void fail(const std::string& name, const std::string& fact, std::string_view hint = kDamaged) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Returns the folder of the entries, such as "model/" for "model/data.pkl".
std::string folder_of(const ZipFile& zip, const std::string& name) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [entry, place] : zip.entries()) {
    const bool is_pickle = entry.ends_with(kPickle) && entry.find('/') == entry.size() - kPickle.size();
    if (is_pickle) return entry.substr(0, entry.size() - kPickle.size() + 1);
  }
  fail(name, "it is a zip file without data.pkl, want what torch.save writes",
       "unpack it if the weights lie within; .npz and other archives are not read");
}

TorchTensors parse_zip(Bytes bytes, const std::string& name) {
  const ZipFile zip(bytes, name);
  const std::string folder = folder_of(zip, name);
  if (zip.has(folder + "constants.pkl")) {
    fail(name, "it is a TorchScript module, want weights",
         "train it with model.name = \"script:FILE\", or save its weights: torch.save(module.state_dict(), FILE)");
  }
  if (const std::string entry = folder + "byteorder"; zip.has(entry) && text_of(zip.entry(entry)) != "little") {
    fail(name, "its numbers are '" + pickle_text(text_of(zip.entry(entry))) + "'-endian, want little",
         "torch.load and torch.save it on a machine such as this one");
  }
  const auto pickle = Pickle::read(zip.entry(folder + "data.pkl"), name, is_torch_name);
  const auto bytes_of = [&](const TorchStorage& storage) { return zip.entry(folder + "data/" + storage.key); };
  return torch_tensors(pickle.root(), name, bytes_of, bytes.size() + kCopiedBeyondFile);
}

/// Reads the storages that follow the pickles. For each key in the list, the file has the count of numbers and then the
/// numbers.
std::map<std::string, Bytes> legacy_storages(Bytes rest, const Pickle& weights, const std::string& name) {
  std::map<std::string, TorchStorage> wanted;
  for (const auto& value : weights.values()) {
    if (value.kind != PickleKind::kPersistent) continue;
    auto storage = torch_storage(value, name);
    wanted.insert_or_assign(storage.key, std::move(storage));
  }
  const auto keys = Pickle::read(rest, name, is_torch_name);
  rest = rest.subspan(keys.size());
  std::map<std::string, Bytes> storages;
  for (const PickleValue* key : keys.root().items) {
    const auto storage = wanted.find(std::string(key->text));
    if (storage == wanted.end()) fail(name, "it holds a storage that no tensor has");
    std::uint64_t count = 0;
    if (rest.size() < sizeof count) fail(name, "it ends before the storage '" + pickle_text(key->text) + "'");
    std::memcpy(&count, rest.data(), sizeof count);
    rest = rest.subspan(sizeof count);
    const auto& [text, dtype, bytes] = std::tie(storage->first, storage->second.dtype, storage->second.bytes);
    const std::size_t width = dtype.empty() ? 1 : dtype_bytes(dtype, name);
    if (count != bytes / width || bytes > rest.size()) {
      fail(name, "the storage '" + pickle_text(text) + "' has " + std::to_string(count) + " numbers and " +
                     std::to_string(rest.size()) + " bytes follow, want " + std::to_string(bytes / width) +
                     " numbers in " + std::to_string(bytes) + " bytes");
    }
    storages[text] = rest.first(bytes);
    rest = rest.subspan(bytes);
  }
  if (!rest.empty()) fail(name, std::to_string(rest.size()) + " bytes follow the last storage");
  return storages;
}

// A file of this kind has four pickles: the magic number, a version, facts on the machine, and the weights. The
// storages follow.
TorchTensors parse_legacy(Bytes bytes, const std::string& name) {
  Bytes rest = bytes.subspan(kLegacyMagic.size());
  const auto next = [&] {
    auto pickle = Pickle::read(rest, name, is_torch_name);
    rest = rest.subspan(pickle.size());
    return pickle;
  };
  if (const auto version = next(); version.root().integer != kLegacyVersion) {
    fail(name, "its version is " + std::to_string(version.root().integer) + ", want 1001",
         "torch.load and torch.save it with a current PyTorch");
  }
  const auto machine = next();
  const PickleValue* is_little = pickle_entry(machine.root(), "little_endian");
  if (is_little == nullptr || is_little->integer != 1) {
    fail(name, "its numbers are big-endian, want little", "torch.load and torch.save it on a machine such as this one");
  }
  const auto weights = next();
  const auto storages = legacy_storages(rest, weights, name);
  const auto bytes_of = [&](const TorchStorage& storage) {
    const auto found = storages.find(storage.key);
    if (found == storages.end()) fail(name, "the storage '" + pickle_text(storage.key) + "' is missing");
    return found->second;
  };
  return torch_tensors(weights.root(), name, bytes_of, bytes.size() + kCopiedBeyondFile);
}

bool is_legacy(Bytes bytes) {
  return bytes.size() > kLegacyMagic.size() && std::memcmp(bytes.data(), kLegacyMagic.data(), kLegacyMagic.size()) == 0;
}

}  // namespace

bool is_torch_file(Bytes bytes) { return ZipFile::is_zip(bytes) || is_legacy(bytes); }

TorchTensors parse_torch_file(Bytes bytes, const std::string& name) {
  if (is_legacy(bytes)) return parse_legacy(bytes, name);
  return parse_zip(bytes, name);
}

}  // namespace lockstep
