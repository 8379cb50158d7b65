// A small writer of SVG pictures. Lengths are pixels, y grows downwards.
#pragma once

#include <string>
#include <vector>

namespace nccom {

struct SvgPoint {
  double x = 0, y = 0;
};

struct SvgBox {
  double x = 0, y = 0, width = 0, height = 0;
  SvgPoint centre() const { return {x + width / 2, y + height / 2}; }
};

/// How a line is drawn.
struct SvgStroke {
  std::string colour = "#888888";
  double width = 1.5;
  bool dashed = false;
  bool arrow = false;  // at its end
};

enum class SvgAnchor : unsigned char { Start, Middle, End };

struct SvgTextStyle {
  double size = 11;
  SvgAnchor anchor = SvgAnchor::Middle;
  bool bold = false;
  std::string colour = "#222222";
  std::string halo = {};  // colour around the letters, over what they cross; empty: none
};

class Svg {
 public:
  void box(const SvgBox& box, const std::string& fill, const std::string& stroke,
           const std::string& tooltip = "");
  void line(SvgPoint from, SvgPoint to, const SvgStroke& stroke);
  /// A curve that leaves the straight line by `bend` at its middle, to the left of its direction.
  void curve(SvgPoint from, SvgPoint to, double bend, const SvgStroke& stroke);
  void text(SvgPoint at, const std::string& text, const SvgTextStyle& style = {});

  /// The picture, large enough for all that was drawn.
  std::string finish() const;

 private:
  std::string strokeOf(const SvgStroke& stroke);
  void cover(SvgPoint point);

  std::string body_;
  std::vector<std::string> arrows_;  // colours that have an arrow head
  double width_ = 0, height_ = 0;
};

/// Colour of the n-th of several things: distinct for the first twelve, then from the start.
std::string svgColour(int n);

}  // namespace nccom
