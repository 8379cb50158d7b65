#include "tools/nccom/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "misc/result.h"

namespace nccom {
namespace {

constexpr double kMargin = 16;

constexpr std::array<const char*, 12> kColours = {"#d62728", "#1f77b4", "#2ca02c", "#ff7f0e",
                                                  "#9467bd", "#17a2b8", "#e377c2", "#8c564b",
                                                  "#bcbd22", "#4b0082", "#006400", "#b8860b"};

/// Bytes of the UTF-8 character that starts at `i`; 0: none does.
size_t utf8Length(const std::string& text, size_t i) {
  const auto first = static_cast<unsigned char>(text[i]);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (i + length > text.size()) return 0;
  for (size_t k = 1; k < length; k++) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    const size_t length = utf8Length(text, i);
    if (length > 1) {
      out += text.substr(i, length);
      i += length - 1;
      continue;
    }
    const char c = length == 1 ? text[i] : '?';
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = formatted(format, args);
  va_end(args);
  return text;
}

const char* anchorText(SvgAnchor anchor) {
  switch (anchor) {
    case SvgAnchor::Start:
      return "start";
    case SvgAnchor::Middle:
      return "middle";
    case SvgAnchor::End:
      return "end";
  }
  return "middle";
}

}  // namespace

void Svg::cover(SvgPoint point) {
  width_ = std::max(width_, point.x);
  height_ = std::max(height_, point.y);
}

void Svg::box(const SvgBox& box, const std::string& fill, const std::string& stroke,
              const std::string& tooltip) {
  cover({box.x + box.width, box.y + box.height});
  body_ += printed(
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"%s\" "
      "stroke=\"%s\"",
      box.x, box.y, box.width, box.height, fill.c_str(), stroke.c_str());
  body_ += tooltip.empty() ? "/>\n" : "><title>" + escaped(tooltip) + "</title></rect>\n";
}

std::string Svg::strokeOf(const SvgStroke& stroke) {
  std::string text = printed("fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"",
                             stroke.colour.c_str(), stroke.width);
  if (stroke.dashed) text += " stroke-dasharray=\"5 4\"";
  if (stroke.arrow) {
    const auto known = std::find(arrows_.begin(), arrows_.end(), stroke.colour);
    text += printed(" marker-end=\"url(#arrow%d)\"", static_cast<int>(known - arrows_.begin()));
    if (known == arrows_.end()) arrows_.push_back(stroke.colour);
  }
  return text;
}

void Svg::line(SvgPoint from, SvgPoint to, const SvgStroke& stroke) {
  cover(from);
  cover(to);
  body_ += printed("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", from.x, from.y,
                   to.x, to.y, strokeOf(stroke).c_str());
}

void Svg::curve(SvgPoint from, SvgPoint to, double bend, const SvgStroke& stroke) {
  const double length = std::max(1.0, std::hypot(to.x - from.x, to.y - from.y));
  const SvgPoint normal = {(to.y - from.y) / length, -(to.x - from.x) / length};
  // A quadratic curve passes half as far from its chord as its control point is.
  const SvgPoint control = {(from.x + to.x) / 2 + 2 * bend * normal.x,
                            (from.y + to.y) / 2 + 2 * bend * normal.y};
  cover(from);
  cover(to);
  cover({(from.x + to.x) / 2 + bend * normal.x, (from.y + to.y) / 2 + bend * normal.y});
  body_ += printed("<path d=\"M %.1f %.1f Q %.1f %.1f %.1f %.1f\" %s/>\n", from.x, from.y,
                   control.x, control.y, to.x, to.y, strokeOf(stroke).c_str());
}

void Svg::text(SvgPoint at, const std::string& text, const SvgTextStyle& style) {
  const double width = static_cast<double>(text.size()) * style.size * 0.6;
  const double right = style.anchor == SvgAnchor::Start    ? width
                       : style.anchor == SvgAnchor::Middle ? width / 2
                                                           : 0;
  cover({at.x + right, at.y + style.size / 2});
  const std::string halo = style.halo.empty()
                               ? ""
                               : printed(
                                     " stroke=\"%s\" stroke-width=\"3\" stroke-linejoin=\"round\" "
                                     "paint-order=\"stroke\"",
                                     style.halo.c_str());
  body_ += printed(
      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\" text-anchor=\"%s\" "
      "fill=\"%s\"%s%s>%s</text>\n",
      at.x, at.y + style.size * 0.35, style.size, anchorText(style.anchor), style.colour.c_str(),
      style.bold ? " font-weight=\"bold\"" : "", halo.c_str(), escaped(text).c_str());
}

std::string Svg::finish() const {
  const double width = width_ + kMargin;
  const double height = height_ + kMargin;
  std::string out = printed(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\">\n<defs>\n",
      width, height, width, height);
  for (size_t i = 0; i < arrows_.size(); i++) {
    out += printed(
        "<marker id=\"arrow%zu\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" "
        "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
        "<path d=\"M0 0 L8 4 L0 8 z\" fill=\"%s\"/></marker>\n",
        i, arrows_[i].c_str());
  }
  out += printed("</defs>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n", width, height);
  return out + body_ + "</svg>\n";
}

std::string svgColour(int n) {
  return kColours[static_cast<size_t>(n) % kColours.size()];
}

}  // namespace nccom
