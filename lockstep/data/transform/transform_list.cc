// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/transform_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {
namespace {

/// An exception: the fault of an entry in the list. parsed_transforms() adds the entry's name and the right form.
struct Complaint {
  std::string fact;
};

/// The value of an argument: a number, several numbers in brackets, or a word.
struct Value {
  std::vector<double> numbers;
  std::string word;
};

/// A parsed call such as "name(1, 2, key=(3, 4))". The builder of a transform takes the arguments that it knows.
/// Arguments that are left are an error.
class Call {
 public:
  explicit Call(std::string_view text) : rest_(trimmed(text)) {
    name_ = word();
    skip_spaces();
    if (rest_.empty()) return;
    expect('(');
    while (!next_is(')')) {
      argument();
      if (next_is(')')) break;
      expect(',');
    }
    expect(')');
    if (!trimmed(rest_).empty()) throw Complaint{"has '" + std::string(trimmed(rest_)) + "' after its end"};
  }

  const std::string& name() const { return name_; }

  /// Removes and returns the next argument without a name, or else the argument named `key`.
  std::optional<Value> take(const std::string& key) {
    if (!positional_.empty()) {
      Value value = std::move(positional_.front());
      positional_.erase(positional_.begin());
      return value;
    }
    return take_named(key);
  }

  std::optional<Value> take_named(const std::string& key) {
    const auto found = named_.find(key);
    if (found == named_.end()) return {};
    Value value = std::move(found->second);
    named_.erase(found);
    return value;
  }

  double number(const std::string& key, double otherwise, double least, double most) {
    const auto value = take(key);
    return value ? one_number(key, *value, least, most) : otherwise;
  }

  /// Takes a size: one side, or height and width. Width is 0 if only one side is given.
  ImageSize sides() {
    constexpr double kMostSide = 65500;
    if (positional_.empty()) throw Complaint{"has no size"};
    ImageSize size;
    size.height = whole("size", one_number("size", *take("size"), 1, kMostSide));
    if (!positional_.empty()) size.width = whole("width", one_number("width", *take("width"), 1, kMostSide));
    return size;
  }
  ImageSize square_or_sides() {
    const ImageSize size = sides();
    return size.width == 0 ? ImageSize{size.height, size.height} : size;
  }

  void take_range(const std::string& key, double (&range)[2], double most) {
    const auto value = take_named(key);
    if (!value) return;
    const auto& numbers = value->numbers;
    if (numbers.size() != 2 || !(numbers[0] > 0) || numbers[0] > numbers[1] || numbers[1] > most) {
      throw Complaint{"has another " + key + " than two numbers above 0, the smaller first, at most " + shortest(most)};
    }
    std::ranges::copy(numbers, range);
  }

  static int whole(const std::string& key, double value) {
    if (value != static_cast<int>(value))
      throw Complaint{"has as " + key + " " + shortest(value) + " where a whole number should be"};
    return static_cast<int>(value);
  }

  void require_nothing_left() const {
    if (!positional_.empty()) throw Complaint{"has more values than it takes"};
    if (!named_.empty()) throw Complaint{"has '" + named_.begin()->first + "', which it does not take"};
  }

 private:
  static double one_number(const std::string& key, const Value& value, double least, double most) {
    if (value.numbers.size() != 1) {
      throw Complaint{"has as " + key + " " + (value.word.empty() ? "several numbers" : "'" + value.word + "'") +
                      " where one number should be"};
    }
    const double number = value.numbers[0];
    if (number < least || number > most) {
      throw Complaint{"has as " + key + " " + shortest(number) + " where there should be " + shortest(least) + " to " +
                      shortest(most)};
    }
    return number;
  }

  void skip_spaces() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) rest_.remove_prefix(1);
  }
  bool next_is(char wanted) {
    skip_spaces();
    return !rest_.empty() && rest_.front() == wanted;
  }
  void expect(char wanted) {
    if (!next_is(wanted)) {
      const std::string found = rest_.empty() ? "its end" : "'" + std::string(rest_) + "'";
      throw Complaint{"has " + found + " where '" + wanted + "' should be"};
    }
    rest_.remove_prefix(1);
  }

  std::string taken_while(bool (*holds)(unsigned char)) {
    const auto end = std::ranges::find_if_not(rest_, [&](char c) { return holds(static_cast<unsigned char>(c)); });
    std::string text(rest_.begin(), end);
    rest_.remove_prefix(text.size());
    return text;
  }
  std::string word() {
    skip_spaces();
    return taken_while([](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  }
  double number() {
    skip_spaces();
    const std::string text =
        taken_while([](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '+'; });
    const auto value = parsed_double(text);
    if (!value) throw Complaint{"has '" + (text.empty() ? std::string(rest_) : text) + "' where a number should be"};
    return *value;
  }

  Value value() {
    Value read;
    if (next_is('(') || next_is('[')) {
      const char close = rest_.front() == '(' ? ')' : ']';
      rest_.remove_prefix(1);
      while (!next_is(close)) {
        read.numbers.push_back(number());
        if (!next_is(close)) expect(',');
      }
      rest_.remove_prefix(1);
    } else if (!rest_.empty() && std::isalpha(static_cast<unsigned char>(rest_.front())) != 0) {
      read.word = word();
    } else {
      read.numbers.push_back(number());
    }
    return read;
  }

  void argument() {
    Value first = value();
    if (first.word.empty() || !next_is('=')) {
      if (!named_.empty()) throw Complaint{"has a value without a name after one with a name"};
      positional_.push_back(std::move(first));
      return;
    }
    rest_.remove_prefix(1);
    skip_spaces();
    if (!named_.emplace(first.word, value()).second) throw Complaint{"has '" + first.word + "' twice"};
  }

  std::string_view rest_;
  std::string name_;
  std::vector<Value> positional_;
  std::map<std::string, Value> named_;
};

void add_resize(Call& call, ImageTransforms& to) {
  const ImageSize size = call.sides();
  to.steps.push_back(step::Resize{.height = size.height, .width = size.width});
}

void add_center_crop(Call& call, ImageTransforms& to) { to.steps.push_back(step::CenterCrop{call.square_or_sides()}); }

void add_random_resized_crop(Call& call, ImageTransforms& to) {
  step::RandomResizedCrop crop{.size = call.square_or_sides()};
  call.take_range("scale", crop.scale, 1);
  call.take_range("ratio", crop.ratio, 100);
  to.steps.push_back(crop);
}

void add_random_crop(Call& call, ImageTransforms& to) {
  step::RandomCrop crop{.size = call.square_or_sides()};
  if (const auto padding = call.take_named("padding")) {
    if (padding->numbers.size() != 1 || padding->numbers[0] < 0 || padding->numbers[0] > 10'000) {
      throw Complaint{"has another padding than one number, 0 to 10000"};
    }
    crop.padding = Call::whole("padding", padding->numbers[0]);
  }
  to.steps.push_back(crop);
}

void add_flip(Call& call, ImageTransforms& to) { to.steps.push_back(step::Flip{.p = call.number("p", 0.5, 0, 1)}); }

void add_color_jitter(Call& call, ImageTransforms& to) {
  step::ColorJitter jitter;
  jitter.brightness = call.number("brightness", 0, 0, 100);
  jitter.contrast = call.number("contrast", 0, 0, 100);
  jitter.saturation = call.number("saturation", 0, 0, 100);
  jitter.hue = call.number("hue", 0, 0, 0.5);
  to.steps.push_back(jitter);
}

struct NamedNormalisation {
  std::string_view name;
  Normalisation numbers;
};

/// Mean and standard deviation of each training set's pixels. ImageNet's are the numbers with which torchvision's
/// weights were trained.
const std::array<NamedNormalisation, 4>& known_normalisations() {
  static const std::array<NamedNormalisation, 4> known{{
      {"imagenet", {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}},
      {"cifar10", {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}},
      {"cifar100", {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}}},
      {"mnist", {{0.1307F}, {0.3081F}}},
  }};
  return known;
}

std::vector<float> channel_numbers(Call& call, const std::string& key, bool is_divisor) {
  const auto value = call.take_named(key);
  if (!value || (value->numbers.size() != 1 && value->numbers.size() != 3)) {
    throw Complaint{"has no " + key + " of 1 or 3 numbers"};
  }
  std::vector<float> numbers(value->numbers.begin(), value->numbers.end());
  if (is_divisor && std::ranges::any_of(numbers, [](float number) { return !(number > 0); })) {
    throw Complaint{"has a " + key + " that is not above 0"};
  }
  return numbers;
}

void add_normalize(Call& call, ImageTransforms& to) {
  if (to.normalisation) throw Complaint{"is the second normalize"};
  if (const auto value = call.take("")) {
    const auto& known = known_normalisations();
    const auto found = std::ranges::find(known, value->word, &NamedNormalisation::name);
    if (found == known.end()) throw Complaint{"has '" + value->word + "', want imagenet, cifar10, cifar100 or mnist"};
    to.normalisation = found->numbers;
    return;
  }
  Normalisation own{.mean = channel_numbers(call, "mean", false), .std = channel_numbers(call, "std", true)};
  if (own.mean.size() != own.std.size()) throw Complaint{"has a mean and a std of different lengths"};
  to.normalisation = std::move(own);
}

void add_mixup(Call& call, ImageTransforms& to) { to.mixing.mixup_alpha = call.number("alpha", 1, 1e-3, 1000); }
void add_cutmix(Call& call, ImageTransforms& to) { to.mixing.cutmix_alpha = call.number("alpha", 1, 1e-3, 1000); }

struct Known {
  const char* name;
  const char* written;
  void (*add)(Call&, ImageTransforms&);
};

constexpr auto kKnown = std::to_array<Known>({
    {"resize", "resize(SHORTER_SIDE) or resize(HEIGHT, WIDTH)", add_resize},
    {"center_crop", "center_crop(SIZE) or center_crop(HEIGHT, WIDTH)", add_center_crop},
    {"random_resized_crop", "random_resized_crop(SIZE, scale=(0.08, 1), ratio=(0.75, 1.3333))",
     add_random_resized_crop},
    {"random_crop", "random_crop(SIZE, padding=0)", add_random_crop},
    {"flip", "flip(p=0.5)", add_flip},
    {"color_jitter", "color_jitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)", add_color_jitter},
    {"normalize", "normalize(imagenet) or normalize(mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))", add_normalize},
    {"mixup", "mixup(alpha=1)", add_mixup},
    {"cutmix", "cutmix(alpha=1)", add_cutmix},
});

const Known* known_transform(const std::string& name) {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) { return name == known.name; });
  return found == kKnown.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_unknown(const std::string& entry, const std::string& name) {
  std::vector<std::string> names;
  names.reserve(kKnown.size());
  for (const Known& known : kKnown) names.emplace_back(known.name);
  const std::string fact = entry + ", want one of: " + joined(names, ", ");
  const auto nearest = nearest_name(name, names);
  const std::string hint = nearest ? std::string("it may be ") + known_transform(*nearest)->written : "";
  throw Error(ErrorKind::kRecipe, fact, hint);
}

}  // namespace

ImageTransforms parsed_transforms(std::span<const std::string> list, const std::string& key) {
  ImageTransforms transforms;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string entry = key + "[" + std::to_string(i) + "] is '" + list[i] + "'";
    const std::string name(trimmed(std::string_view(list[i]).substr(0, list[i].find('('))));
    const Known* known = known_transform(name);
    if (known == nullptr) refuse_unknown(entry, name);
    try {
      Call call(list[i]);
      known->add(call, transforms);
      call.require_nothing_left();
    } catch (const Complaint& complaint) {
      throw Error(ErrorKind::kRecipe, entry + ", which " + complaint.fact,
                  std::string("it is written ") + known->written);
    }
  }
  return transforms;
}

}  // namespace lockstep
