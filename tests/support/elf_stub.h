// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::testing {

/// The entries of a made-up shared library that the dynamic loader reads.
struct ElfStub {
  std::vector<std::string> needed{};
  std::vector<std::string> provides{};   ///< Versions that it defines.
  std::vector<std::string> requires_{};  ///< Versions that it wants of the first library needed.
  std::string run_path{};
};

/// A shared library without any code, whose dynamic section is as a linker writes it. Addresses equal offsets in the
/// file.
class ElfStubWriter {
 public:
  explicit ElfStubWriter(const ElfStub& stub) {
    bytes_.resize(sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr));
    for (const auto& name : stub.needed) tag(DT_NEEDED, string(name));
    if (!stub.run_path.empty()) tag(DT_RUNPATH, string(stub.run_path));
    if (!stub.provides.empty()) tag(DT_VERDEF, definitions(stub.provides));
    if (!stub.requires_.empty()) tag(DT_VERNEED, needs(stub.needed.front(), stub.requires_));
    const auto strings = bytes_.size();
    bytes_ += strings_;
    tag(DT_STRTAB, strings);
    tag(DT_NULL, 0);
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    const auto dynamic = bytes_.size();
    for (const auto& entry : tags_) append(entry);
    write_headers(dynamic);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(Elf64_Sxword name, std::uint64_t value) { tags_.push_back({.d_tag = name, .d_un = {.d_val = value}}); }

  std::uint32_t string(std::string_view text) {
    const auto at = static_cast<std::uint32_t>(strings_.size());
    strings_ += text;
    strings_ += '\0';
    return at;
  }

  template <typename Struct>
  void append(const Struct& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::uint64_t definitions(const std::vector<std::string>& versions) {
    const auto begin = bytes_.size();
    for (std::size_t i = 0; i < versions.size(); ++i) {
      const bool is_last = i + 1 == versions.size();
      append(Elf64_Verdef{
          .vd_version = 1,
          .vd_flags = 0,
          .vd_ndx = static_cast<Elf64_Half>(i + 2),
          .vd_cnt = 1,
          .vd_hash = 0,
          .vd_aux = sizeof(Elf64_Verdef),
          .vd_next = is_last ? 0U : static_cast<Elf64_Word>(sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux))});
      append(Elf64_Verdaux{.vda_name = string(versions[i]), .vda_next = 0});
    }
    return begin;
  }

  std::uint64_t needs(const std::string& library, const std::vector<std::string>& versions) {
    const auto begin = bytes_.size();
    append(Elf64_Verneed{.vn_version = 1,
                         .vn_cnt = static_cast<Elf64_Half>(versions.size()),
                         .vn_file = string(library),
                         .vn_aux = sizeof(Elf64_Verneed),
                         .vn_next = 0});
    for (std::size_t i = 0; i < versions.size(); ++i) {
      append(Elf64_Vernaux{.vna_hash = 0,
                           .vna_flags = 0,
                           .vna_other = 0,
                           .vna_name = string(versions[i]),
                           .vna_next = i + 1 == versions.size() ? 0U : static_cast<Elf64_Word>(sizeof(Elf64_Vernaux))});
    }
    return begin;
  }

  void write_headers(std::size_t dynamic) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    load.p_filesz = load.p_memsz = bytes_.size();
    Elf64_Phdr section{};
    section.p_type = PT_DYNAMIC;
    section.p_offset = section.p_vaddr = dynamic;
    section.p_filesz = section.p_memsz = bytes_.size() - dynamic;
    std::memcpy(bytes_.data(), &header, sizeof header);
    std::memcpy(bytes_.data() + sizeof header, &load, sizeof load);
    std::memcpy(bytes_.data() + sizeof header + sizeof load, &section, sizeof section);
  }

  std::string bytes_;
  std::string strings_ = std::string(1, '\0');
  std::vector<Elf64_Dyn> tags_;
};

inline std::string elf_stub(const ElfStub& stub) { return ElfStubWriter(stub).bytes(); }

}  // namespace lockstep::testing
