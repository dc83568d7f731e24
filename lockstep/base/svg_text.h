// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Building blocks for SVG and HTML.

// The palette of Okabe and Ito, whose colours people with colour blindness can tell apart.
inline constexpr std::array<std::string_view, 6> kSvgColours = {"#0072b2", "#d55e00", "#009e73",
                                                                "#cc79a7", "#e69f00", "#56b4e9"};

/// Escapes text for the content of an element, or for an attribute in double quotes. Control characters are not allowed
/// there and become U+FFFD, and so do bytes that are not UTF-8.
std::string xml_escaped(std::string_view text);

struct SvgPoint {
  double x = 0;
  double y = 0;
};

/// `attributes` are further attributes of the element, such as `stroke="#ddd"`.
std::string svg_line(SvgPoint from, SvgPoint to, std::string_view attributes);
std::string svg_polyline(const std::vector<SvgPoint>& points, std::string_view attributes);

/// `anchor` is "start", "middle" or "end".
std::string svg_words(SvgPoint at, std::string_view anchor, std::string_view text);

}  // namespace lockstep
