// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/svg_text.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// Returns the text with U+FFFD in place of bytes that are not UTF-8.
std::string as_utf8(std::string_view text) {
  const auto quoted = json_text(nlohmann::json(std::string(text)));
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : as_utf8(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default: {
        const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
        out += is_control ? std::string("\xEF\xBF\xBD") : std::string(1, c);
      }
    }
  }
  return out;
}

std::string svg_line(SvgPoint from, SvgPoint to, std::string_view attributes) {
  return "<line x1=\"" + fixed(from.x, 1) + "\" y1=\"" + fixed(from.y, 1) + "\" x2=\"" + fixed(to.x, 1) + "\" y2=\"" +
         fixed(to.y, 1) + "\" " + std::string(attributes) + "/>\n";
}

std::string svg_polyline(const std::vector<SvgPoint>& points, std::string_view attributes) {
  std::string text = "<polyline points=\"";
  for (const auto& each : points) text += fixed(each.x, 1) + "," + fixed(each.y, 1) + " ";
  return text + "\" fill=\"none\" " + std::string(attributes) + "/>\n";
}

std::string svg_words(SvgPoint at, std::string_view anchor, std::string_view text) {
  return "<text x=\"" + fixed(at.x, 1) + "\" y=\"" + fixed(at.y, 1) + "\" text-anchor=\"" + std::string(anchor) +
         "\">" + xml_escaped(text) + "</text>\n";
}

}  // namespace lockstep
