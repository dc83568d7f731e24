// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/pickle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle_numpy.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Kind = PickleKind;
using namespace std::string_literals;
using testing::message_of;

const std::filesystem::path kGolden = lockstep::testing::source_root() / "tests/golden/weights";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Why `text` is refused.
std::string refusal(const std::string& text) {
  return message_of(ErrorKind::kData, [&] { Pickle::read(bytes_of(text), "x.pkl", is_torch_name); });
}

TEST(Pickle, ReadsWhatEveryProtocolOfPython3Writes) {
  for (const char* file : {"arrays-2.pickle", "arrays-4.pickle", "arrays-5.pickle"}) {
    SCOPED_TRACE(file);
    const std::string text = text_of_file(kGolden / file);
    const auto pickle = Pickle::read(bytes_of(text), file, is_numpy_name);
    EXPECT_EQ(pickle.size(), text.size());
    const PickleValue& root = pickle.root();
    EXPECT_EQ(pickle_entry(root, "note")->text, "h\u00e9");
    EXPECT_EQ(pickle_entry(root, "small")->integer, -3);
    EXPECT_EQ(pickle_entry(root, "real")->real, 0.5);
    EXPECT_EQ(pickle_entry(root, "big")->kind, Kind::kBigInt);
    EXPECT_EQ(pickle_entry(root, "big")->text, "\0\0\0\0\0\0\0\0\x40"s);
    EXPECT_EQ(pickle_entry(root, "nothing"), nullptr);
  }
}

TEST(Pickle, KeepsCallsAsNotes) {
  const std::string text =
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1u}X\1\0\0\0bK\2sb."s;
  const auto pickle = Pickle::read(bytes_of(text), "x.pkl", is_torch_name);
  EXPECT_TRUE(pickle.root().is_call_of("collections.OrderedDict"));
  EXPECT_EQ(pickle_entry(pickle.root(), "a")->integer, 1);
  EXPECT_EQ(pickle_entry(*pickle.root().state, "b")->integer, 2);
  EXPECT_EQ(pickle_kind(pickle.root()), "a call of collections.OrderedDict");
}

TEST(Pickle, ReadsPython2sOrderedDict) {
  const std::string text =
      "\x80\x02"
      "ccollections\nOrderedDict\n]](U\1aK\7ea\x85R."s;
  const auto pickle = Pickle::read(bytes_of(text), "x.pkl", is_torch_name);
  EXPECT_EQ(pickle_entry(pickle.root(), "a")->integer, 7);
}

TEST(Pickle, RefusesNamesThatItDoesNotKnowAndRunsNothing) {
  const std::filesystem::path traces = std::filesystem::current_path() / "lockstep-ran-a-pickle";
  for (int protocol = 0; protocol < 6; ++protocol) {
    const std::string message = refusal(text_of_file(kGolden / ("evil-" + std::to_string(protocol) + ".pickle")));
    EXPECT_HAS(message,
               "it names 'posix.system', which is not among the names that weights and data sets need; "
               "nothing was run");
  }
  EXPECT_HAS(refusal("(cos\nsystem\n"), "it names 'os.system'");
  EXPECT_HAS(refusal("(S'echo'\nios\nsystem\n."), "the opcode is 0x53");
  EXPECT_HAS(refusal("(ios\nsystem\n."), "it names 'os.system'");
  EXPECT_HAS(refusal("\x80\x04\x8c\x08"
                     "builtins\x8c\x04"
                     "eval\x93."),
             "it names 'builtins.eval'");
  EXPECT_HAS(refusal("cos\nsys\x1b[2Jtem\n."), "it names 'os.sys?[2Jtem'");
  EXPECT_FALSE(std::filesystem::exists(traces));
}

TEST(Pickle, RefusesWhatIsCutShortAtEveryByte) {
  const std::string text = text_of_file(kGolden / "arrays-4.pickle");
  for (std::size_t size = 0; size < text.size(); ++size) {
    message_of(ErrorKind::kData, [&] { Pickle::read(bytes_of(text).first(size), "x.pkl", is_numpy_name); });
  }
  EXPECT_HAS(refusal("\x80\x02X\xff\0\0\0abc."s),
             "x.pkl: at byte 2 of the pickle, 255 bytes should follow, but the file ends after 4\n  hint: ");
}

TEST(Pickle, SaysWhatIsWrong) {
  EXPECT_HAS(refusal("\x80\x06."), "the protocol is 6, want 2 to 5");
  EXPECT_HAS(refusal("\x80\x02\xff"), "the opcode is 0xff, want one of pickle's protocols 2 to 5");
  EXPECT_HAS(refusal("\x80\x02."), "nothing is there to work on");
  EXPECT_HAS(refusal("\x80\x02(."), "nothing is there to work on");
  EXPECT_HAS(refusal("\x80\x02t."), "a group ends that has not begun");
  EXPECT_HAS(refusal("\x80\x02(K\1d."), "a dict has a key without a value");
  EXPECT_HAS(refusal("\x80\x02NNa."), "parts are added to None");
  EXPECT_HAS(refusal("\x80\x02h\7."), "it recalls value 7, which it has not kept");
  EXPECT_HAS(refusal("\x80\x02NN."), "the end comes with 1 values left over");
  EXPECT_HAS(refusal("\x80\x02N)R."), "it calls None, want a name");
  EXPECT_HAS(refusal("\x80\x02"
                     "ctorch\nSize\nNR."),
             "a call's arguments are None, want a tuple");
  EXPECT_HAS(refusal("\x80\x02N}b."), "a state is set on None, want an object");
}

TEST(Pickle, ReadsAListThatHoldsItself) {
  const std::string text = "\x80\x02]q\0h\0a."s;
  const auto pickle = Pickle::read(bytes_of(text), "x.pkl", is_torch_name);
  EXPECT_EQ(pickle.root().items.front(), &pickle.root());
}

TEST(Pickle, BoundsTheMemoryThatItTakes) {
  const std::string text(200, 'x');
  std::string pickle =
      "\x80\x02"
      "c_codecs\nencode\nq\0U\xc8"s +
      text + "q\1\x85R"s;
  EXPECT_NO_THROW(Pickle::read(bytes_of(pickle + "."), "x.pkl", is_numpy_name));
  pickle = "\x80\x02(" + pickle.substr(2);
  for (int i = 0; i < 8; ++i) pickle += "h\0h\1\x85R"s;
  pickle += "t.";
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { Pickle::read(bytes_of(pickle), "x.pkl", is_numpy_name); }),
             "it makes more bytes of its texts than there are");
  EXPECT_HAS(refusal("\x80\x02(" + std::string(Pickle::kMostValues + 1, 'N') + "t."),
             "there are more than 2000000 values");
}

TEST(PickleNumpy, ReadsArraysOfEveryProtocol) {
  for (const char* file : {"arrays-2.pickle", "arrays-4.pickle", "arrays-5.pickle", "cifar-python2.pickle"}) {
    SCOPED_TRACE(file);
    const std::string text = text_of_file(kGolden / file);
    const auto pickle = Pickle::read(bytes_of(text), file, is_numpy_name);
    const auto array = numpy_array(*pickle_entry(pickle.root(), "data"), file);
    EXPECT_EQ(array.dtype, "U8");
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 300}));
    ASSERT_EQ(array.bytes.size(), 600U);
    for (std::size_t i = 0; i < 600; ++i) ASSERT_EQ(array.bytes[i], static_cast<std::byte>(i)) << i;
    const PickleValue& labels = *pickle_entry(pickle.root(), "labels");
    EXPECT_EQ(labels.items.at(0)->integer, 6);
    EXPECT_EQ(labels.items.at(1)->integer, 9);
  }
}

TEST(PickleNumpy, SaysWhatIsNoArray) {
  const std::string text = text_of_file(kGolden / "arrays-4.pickle");
  const auto pickle = Pickle::read(bytes_of(text), "x", is_numpy_name);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { numpy_array(*pickle_entry(pickle.root(), "labels"), "x: 'labels'"); }),
             "x: 'labels': found a list, want a NumPy array");
  // The shape has one row more than there are bytes.
  std::string longer = text;
  longer.replace(longer.find("K\x02M\x2c\x01\x86"), 2, "K\x03");
  const auto lying = Pickle::read(bytes_of(longer), "x", is_numpy_name);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { numpy_array(*pickle_entry(lying.root(), "data"), "x"); }),
             "the array has 600 bytes, want 900 for its shape");
}

}  // namespace
}  // namespace lockstep
