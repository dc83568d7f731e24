// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/manifest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "lockstep/base/checksum.h"
#include "lockstep/base/text.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using lockstep::testing::message_of;

/// Returns these lines with the right checksum below them.
std::string sealed(const std::string& lines) { return lines + hex64(xxh3_64(lines)) + "\n"; }

const std::string kFirst = "lockstep-snapshot 1\n";
const std::string kRun = "0123456789abcdef0123456789abcdef";
const std::string kSecond = "lockstep-snapshot 2\nchecksum xxh3\nrun " + kRun + "\nstep 420\n";
const std::string kModel = "0123456789abcdef  42  model.safetensors\n";

std::string refusal_of(const std::string& text) {
  const std::string message = message_of(ErrorKind::kData, [&] { parsed_manifest(text, "MANIFEST"); });
  return message.substr(0, message.find('\n'));
}

TEST(Manifest, IsTextWithOneLineAFileAndAChecksumBelow) {
  Manifest manifest{.entries = {{"model.safetensors", 42, 0x0123456789abcdef}, {"state of it.json", 0, 1}}};
  const std::string lines = kModel + "0000000000000001  0  state of it.json\n";
  EXPECT_EQ(manifest_text(manifest), sealed(kFirst + lines)) << "version 1, as older versions wrote it";
  EXPECT_EQ(parsed_manifest(sealed(kFirst + lines), "MANIFEST"), manifest);
  manifest.run = kRun;
  manifest.step = 420;
  EXPECT_EQ(manifest_text(manifest), sealed(kSecond + lines));
  EXPECT_EQ(parsed_manifest(sealed(kSecond + lines), "MANIFEST"), manifest);
}

/// The expected numbers come from Python's zlib.crc32().
TEST(Manifest, OfPythonHasChecksumsOfPythonsOwn) {
  const std::string lines = "lockstep-snapshot 2\nchecksum crc32\nrun " + kRun + "\nstep 0\ncbf43926  9  a\n";
  const auto manifest = parsed_manifest(lines + "28be2671\n", "MANIFEST");
  EXPECT_EQ(manifest.checksum, ChecksumKind::kCrc32);
  EXPECT_EQ(manifest.entries, (std::vector<ManifestEntry>{{"a", 9, 0xcbf43926}}));
  EXPECT_EQ(manifest_text(manifest), lines + "28be2671\n");
  EXPECT_EQ(refusal_of(lines + "00000000\n"),
            "MANIFEST: the lines have the checksum 28be2671, want 00000000 as the last line says");
  EXPECT_EQ(refusal_of(sealed(lines)),
            "MANIFEST: the last line is '" + hex64(xxh3_64(lines)) + "', want a checksum of 8 hexadecimal digits");
}

TEST(Manifest, RefusesAnotherIdentityThanItWouldWrite) {
  const auto with = [](const std::string& identity) { return refusal_of(sealed("lockstep-snapshot 2\n" + identity)); };
  const std::string run = "run " + kRun + "\n";
  EXPECT_EQ(with("checksum md5\n"), "MANIFEST:2: found 'checksum md5', want 'checksum xxh3' or 'checksum crc32'");
  EXPECT_EQ(with("checksum xxh3\nrun 12\n"), "MANIFEST:3: found 'run 12', want 'run ' and 32 hexadecimal digits");
  EXPECT_EQ(with("checksum xxh3\n"), "MANIFEST:3: found '', want 'run ' and 32 hexadecimal digits");
  for (const std::string step : {"step -1", "step 042", "step", "stepp 4", "step 4 "}) {
    EXPECT_EQ(with("checksum xxh3\n" + run + step + "\n"),
              "MANIFEST:4: found '" + step + "', want 'step ' and a whole number");
  }
  EXPECT_EQ(with("checksum xxh3\n" + run + "step 4\n"), "MANIFEST: no file is listed, want at least one");
  message_of(ErrorKind::kBug, [] { manifest_text({.run = "mine", .step = 4, .entries = {}}); });
}

TEST(Manifest, RefusesTextWithoutItsLastLine) {
  EXPECT_EQ(refusal_of(""), "MANIFEST: the last line is cut short, want a line end after the checksum");
  const std::string whole = sealed(kFirst + kModel);
  for (std::size_t size = 0; size < whole.size(); ++size) refusal_of(whole.substr(0, size));
  EXPECT_EQ(refusal_of(kFirst + kModel),
            "MANIFEST: the last line is '0123456789abcdef  42  model.safetensors', want a checksum of 16 hexadecimal "
            "digits");
  EXPECT_EQ(refusal_of(kFirst + kModel + "0000000000000000\n"), "MANIFEST: the lines have the checksum " +
                                                                    hex64(xxh3_64(kFirst + kModel)) +
                                                                    ", want 0000000000000000 as the last line says");
}

TEST(Manifest, RefusesAnotherFormatAndVersion) {
  EXPECT_EQ(refusal_of(sealed("lockstep-snapshot 3\n" + kModel)),
            "MANIFEST: the first line is 'lockstep-snapshot 3', want 'lockstep-snapshot 2' or 'lockstep-snapshot 1'");
  EXPECT_EQ(refusal_of(sealed(kFirst)), "MANIFEST: no file is listed, want at least one");
}

TEST(Manifest, RefusesNamesThatLeadOutOfTheSnapshot) {
  for (const std::string name : {"../model.safetensors", "/etc/passwd", "a/b", "..", ".", "", "MANIFEST"}) {
    EXPECT_EQ(refusal_of(sealed(kFirst + "0123456789abcdef  42  " + name + "\n")),
              "MANIFEST:2: the file's name is '" + name + "', want one directly within the snapshot");
    EXPECT_FALSE(is_manifest_file_name(name));
  }
  EXPECT_EQ(refusal_of(sealed(kFirst + "0123456789abcdef  42  a\tb\n")),
            "MANIFEST:2: the file's name is 'a?b', want one directly within the snapshot");
  message_of(ErrorKind::kBug, [] { manifest_text({.entries = {{"../x", 0, 0}}}); });
}

TEST(Manifest, RefusesLinesThatItWouldNotWrite) {
  EXPECT_EQ(refusal_of(sealed(kFirst + "model.safetensors\n")),
            "MANIFEST:2: found 'model.safetensors', want '<checksum>  <bytes>  <name>'");
  EXPECT_EQ(refusal_of(sealed(kFirst + "\n")), "MANIFEST:2: found '', want '<checksum>  <bytes>  <name>'");
  EXPECT_EQ(refusal_of(sealed(kFirst + "0123456789ABCDEF  42  m\n")),
            "MANIFEST:2: the checksum is '0123456789ABCDEF', want 16 hexadecimal digits");
  for (const std::string size : {"", "-1", "042", "4.2", "18446744073709551616"}) {
    EXPECT_EQ(refusal_of(sealed(kFirst + "0123456789abcdef  " + size + "  m\n")),
              "MANIFEST:2: the size is '" + size + "', want a whole number");
  }
  EXPECT_EQ(refusal_of(sealed(kFirst + kModel + kModel)),
            "MANIFEST:3: 'model.safetensors' is listed twice, want each file once");
}

TEST(Manifest, TakesOnlyWhatItWouldWriteOfAnyText) {
  std::mt19937 random(20240229);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int taken = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int round = 0; round < 20'000 && std::chrono::steady_clock::now() < until; ++round) {
    std::string lines = (below(2) == 0 ? kFirst : kSecond) + kModel + "0000000000000001  0  state.json\n";
    for (std::size_t n = below(4); n > 0; --n) {
      const std::size_t at = below(lines.size());
      if (below(2) == 0) {
        lines[at] = " \n0f/.-zA"[below(9)];
      } else {
        lines.insert(at, lines.substr(below(lines.size()), below(48)));
      }
    }
    const std::string text = below(8) == 0 ? lines : sealed(lines);
    try {
      ASSERT_EQ(manifest_text(parsed_manifest(text, "MANIFEST")), text);
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kData) << error.what() << text;
    }
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace lockstep
