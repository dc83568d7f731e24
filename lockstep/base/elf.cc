// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/elf.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostVersions = 4096;

/// An ELF file in memory. Every read is checked against its size, so a damaged file cannot crash the program.
class MappedLibrary {
 public:
  explicit MappedLibrary(const fs::path& path) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found {};
    if (!fd || ::fstat(fd.get(), &found) != 0 || found.st_size <= 0) return;
    void* memory = ::mmap(nullptr, static_cast<std::size_t>(found.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return;
    data_ = static_cast<const char*>(memory);
    size_ = static_cast<std::size_t>(found.st_size);
  }
  ~MappedLibrary() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }
  MappedLibrary(const MappedLibrary&) = delete;
  MappedLibrary& operator=(const MappedLibrary&) = delete;

  template <typename Struct>
  std::optional<Struct> at(std::uint64_t offset) const {
    if (offset > size_ || size_ - offset < sizeof(Struct)) return std::nullopt;
    Struct value{};
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

  std::string text(std::uint64_t offset) const {
    if (offset >= size_) return {};
    const char* begin = data_ + offset;
    return {begin, std::find(begin, data_ + size_, '\0')};
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The dynamic section of an ELF file: the value of each tag. It also converts addresses to offsets in the file.
class DynamicSection {
 public:
  explicit DynamicSection(const MappedLibrary& file) : file_(file) {
    const auto header = file.at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB) {
      return;
    }
    for (unsigned i = 0; i < header->e_phnum; ++i) {
      const auto segment = file.at<Elf64_Phdr>(header->e_phoff + std::uint64_t{i} * header->e_phentsize);
      if (!segment) return;
      if (segment->p_type == PT_LOAD) loaded_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) read_entries(*segment);
    }
    is_whole_ = !entries_.empty();
  }

  bool is_whole() const { return is_whole_; }

  std::optional<std::uint64_t> value(Elf64_Sxword tag) const {
    const auto found = std::ranges::find(entries_, tag, &Elf64_Dyn::d_tag);
    return found == entries_.end() ? std::nullopt : std::optional<std::uint64_t>(found->d_un.d_val);
  }

  /// Returns the offset in the file that corresponds to the address in the tag's value.
  std::optional<std::uint64_t> place(Elf64_Sxword tag) const {
    const auto address = value(tag);
    if (!address) return std::nullopt;
    for (const auto& segment : loaded_) {
      if (*address >= segment.p_vaddr && *address - segment.p_vaddr < segment.p_filesz) {
        return *address - segment.p_vaddr + segment.p_offset;
      }
    }
    return std::nullopt;
  }

  std::string name(std::uint64_t offset) const {
    const auto strings = place(DT_STRTAB);
    return strings ? file_.text(*strings + offset) : std::string();
  }

  std::vector<std::string> names(Elf64_Sxword tag) const {
    std::vector<std::string> found;
    for (const auto& entry : entries_) {
      if (entry.d_tag == tag) found.push_back(name(entry.d_un.d_val));
    }
    return found;
  }

 private:
  void read_entries(const Elf64_Phdr& segment) {
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = file_.at<Elf64_Dyn>(segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) return;
      entries_.push_back(*entry);
    }
  }

  const MappedLibrary& file_;
  std::vector<Elf64_Phdr> loaded_;
  std::vector<Elf64_Dyn> entries_;
  bool is_whole_ = false;
};

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && name ? without_parameters(name.get()) : symbol;
}

/// Looks addresses up in one symbol table. Names that are there already stay.
void name_functions(const MappedLibrary& file, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                    const std::vector<std::uint64_t>& addresses, std::vector<std::string>& names) {
  if (table.sh_entsize != sizeof(Elf64_Sym)) return;
  const auto count = table.sh_size / sizeof(Elf64_Sym);
  std::vector<std::uint64_t> best(addresses.size(), UINT64_MAX);  // The smallest symbol is the most exact.
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto symbol = file.at<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
    if (!symbol) return;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
    for (std::size_t k = 0; k < addresses.size(); ++k) {
      const auto address = addresses[k];
      const bool covers = address >= symbol->st_value && address - symbol->st_value < symbol->st_size;
      if (!covers || symbol->st_size >= best[k] || (best[k] == UINT64_MAX && !names[k].empty())) continue;
      best[k] = symbol->st_size;
      names[k] = readable(file.text(strings.sh_offset + symbol->st_name));
    }
  }
}

std::vector<std::string> provided(const MappedLibrary& file, const DynamicSection& dynamic) {
  std::vector<std::string> versions;
  auto at = dynamic.place(DT_VERDEF);
  while (at && versions.size() < kMostVersions) {
    const auto definition = file.at<Elf64_Verdef>(*at);
    if (!definition) break;
    if (const auto first = file.at<Elf64_Verdaux>(*at + definition->vd_aux)) {
      versions.push_back(dynamic.name(first->vda_name));
    }
    if (definition->vd_next == 0) break;
    *at += definition->vd_next;
  }
  return versions;
}

std::vector<std::string> required(const MappedLibrary& file, const DynamicSection& dynamic) {
  std::vector<std::string> versions;
  auto at = dynamic.place(DT_VERNEED);
  while (at && versions.size() < kMostVersions) {
    const auto need = file.at<Elf64_Verneed>(*at);
    if (!need) break;
    std::uint64_t inner = *at + need->vn_aux;
    for (unsigned i = 0; i < need->vn_cnt && versions.size() < kMostVersions; ++i) {
      const auto version = file.at<Elf64_Vernaux>(inner);
      if (!version) break;
      versions.push_back(dynamic.name(version->vna_name));
      inner += version->vna_next;
    }
    if (need->vn_next == 0) break;
    *at += need->vn_next;
  }
  return versions;
}

/// Returns the virtual address of an offset in the file, or one that no symbol has.
std::uint64_t address_at(const MappedLibrary& file, const Elf64_Ehdr& header, std::uint64_t offset) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (!segment) break;
    const bool holds =
        segment->p_type == PT_LOAD && offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz;
    if (holds) return offset - segment->p_offset + segment->p_vaddr;
  }
  return UINT64_MAX;
}

}  // namespace

std::string without_parameters(std::string_view function) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  std::string name;
  int depth = 0;  // Within the angle brackets of a template.
  for (std::size_t i = 0; i < function.size(); ++i) {
    const char each = function[i];
    const auto rest = function.substr(i);
    if (rest.starts_with(kUnnamed)) {
      if (depth == 0) name += kUnnamed;
      i += kUnnamed.size() - 1;
    } else if (rest.starts_with("operator()") || rest.starts_with("operator<") || rest.starts_with("operator->")) {
      const bool is_long =
          rest.starts_with("operator()") || rest.starts_with("operator->") || rest.starts_with("operator<<");
      const auto size = is_long ? 10U : 9U;
      if (depth == 0) name += rest.substr(0, size);
      i += size - 1;
    } else if (each == '<') {
      ++depth;
    } else if (each == '>') {
      --depth;
    } else if (depth == 0 && each == '(') {
      break;
    } else if (depth == 0 && each == ' ') {
      name.clear();  // What came so far is the type that it returns.
    } else if (depth == 0) {
      name += each;
    }
  }
  return name.empty() ? std::string(function) : name;
}

std::vector<std::string> function_names(const fs::path& path, const std::vector<std::uint64_t>& offsets) {
  std::vector<std::string> names(offsets.size());
  const MappedLibrary file(path);
  const auto header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return names;
  }
  const auto addresses = map_each(offsets, [&](std::uint64_t offset) { return address_at(file, *header, offset); });
  const auto section = [&](std::uint64_t index) {
    return file.at<Elf64_Shdr>(header->e_shoff + index * header->e_shentsize);
  };
  // The whole table is not in every file. It knows local functions too, so it comes first.
  for (const auto type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (unsigned i = 0; i < header->e_shnum; ++i) {
      const auto table = section(i);
      if (!table) return names;
      const auto strings = table->sh_type == static_cast<Elf64_Word>(type) ? section(table->sh_link) : std::nullopt;
      if (strings) name_functions(file, *table, *strings, addresses, names);
    }
  }
  return names;
}

std::optional<SharedLibrary> shared_library(const fs::path& path) {
  const MappedLibrary file(path);
  const DynamicSection dynamic(file);
  if (!dynamic.is_whole()) return std::nullopt;
  SharedLibrary library{
      .needed = dynamic.names(DT_NEEDED), .provides = provided(file, dynamic), .requires_ = required(file, dynamic)};
  auto paths = dynamic.names(DT_RUNPATH);
  if (paths.empty()) paths = dynamic.names(DT_RPATH);
  for (const auto& list : paths) {
    for (auto folder : split(list, ':')) {
      const auto origin = folder.find("$ORIGIN");
      if (origin != std::string::npos) folder.replace(origin, 7, path.parent_path().string());
      library.run_path.push_back(folder);
    }
  }
  return library;
}

bool is_older(std::string_view version, std::string_view than) {
  const auto numbers = [](std::string_view text) {
    std::vector<int> parts;
    for (const auto& part : split(text, '.')) parts.push_back(parsed_int<int>(part).value_or(0));
    return parts;
  };
  return numbers(version) < numbers(than);
}

std::string newest_version(const std::vector<std::string>& versions, std::string_view prefix) {
  std::string newest;
  for (const auto& version : versions) {
    if (!version.starts_with(prefix) || version.size() == prefix.size()) continue;
    const auto number = version.substr(prefix.size());
    const bool is_number = number.front() >= '0' && number.front() <= '9';
    if (is_number && (newest.empty() || is_older(newest, number))) newest = number;
  }
  return newest;
}

}  // namespace lockstep
