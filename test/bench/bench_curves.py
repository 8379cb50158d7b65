"""Curves of time over size, one drawing for each operation and number of ranks."""
import math
from pathlib import Path

from bench_table import human, short

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 150, 34, 46
COLOURS = ["#d1495b", "#30638e", "#edae49", "#66a182", "#8d6a9f", "#6f5e53", "#00798c", "#b56576"]
DASHES = {"floor": "6 4"}


def decades(least, most):
    return range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)


class Drawing:
    """Logarithmic axes and what is on them."""

    def __init__(self, title, xs, ys):
        self.x0, self.x1 = math.log2(min(xs)), max(math.log2(max(xs)), math.log2(min(xs)) + 1)
        ticks = decades(min(ys), max(ys))
        self.y0, self.y1 = ticks[0], max(ticks[-1], ticks[0] + 1)
        self.parts = [self.text(LEFT, 20, title, "start", 15)]
        for tick in range(self.y0, self.y1 + 1):
            y = self.y(10 ** tick)
            self.line(LEFT, y, WIDTH - RIGHT, y, "#dddddd")
            self.parts.append(self.text(LEFT - 6, y + 4, short(10 ** tick), "end"))
        for size in sorted(set(xs)):
            x = self.x(size)
            self.line(x, TOP, x, HEIGHT - BOTTOM, "#eeeeee")
            self.parts.append(f'<g transform="translate({x:.1f} {HEIGHT - BOTTOM + 14}) rotate(30)">'
                              + self.text(0, 0, human(size), "start", 10) + "</g>")

    def x(self, size):
        return LEFT + (math.log2(size) - self.x0) / (self.x1 - self.x0) * (WIDTH - RIGHT - LEFT)

    def y(self, time):
        part = (math.log10(time) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)

    @staticmethod
    def text(x, y, words, anchor, points=11):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{points}">'
                f"{words}</text>")

    def line(self, x0, y0, x1, y1, colour):
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" '
                          f'stroke="{colour}"/>')

    def curve(self, number, name, points):
        who = name.split("/")[0]
        colour = "#222222" if who == "floor" else COLOURS[number % len(COLOURS)]
        style = (f'fill="none" stroke="{colour}" stroke-width="{3 if who == "nccom" else 1.5}" '
                 f'stroke-dasharray="{DASHES.get(who, "none")}"')
        path = " ".join(f"{self.x(size):.1f},{self.y(time):.1f}" for size, time in points)
        self.parts.append(f'<polyline points="{path}" {style}/>')
        y = TOP + 12 + 20 * number
        self.parts.append(f'<line x1="{WIDTH - RIGHT + 12}" y1="{y - 4}" x2="{WIDTH - RIGHT + 40}" '
                          f'y2="{y - 4}" {style}/>')
        self.parts.append(self.text(WIDTH - RIGHT + 46, y, name, "start"))

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                f'font-family="sans-serif"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def curves_of(results, op, ranks):
    """name -> [(size, time)], ours first, then the floor, then peers."""
    curves = {}
    for key in results.cases():
        if key[:2] == (op, ranks) and key[2] > 0:
            for name in results.times[key]:
                curves.setdefault(name, []).append((key[2], results.median(key, name)))
    order = {"nccom": 0, "floor": 1}
    return dict(sorted(curves.items(), key=lambda item: (order.get(item[0].split("/")[0], 2),
                                                         item[0])))


def write_curves(results, out, docs):
    folders = [Path(out)] + ([Path(docs) / "performance"] if docs else [])
    for op, ranks in sorted({key[:2] for key in results.cases()}):
        curves = curves_of(results, op, ranks)
        points = [point for curve in curves.values() for point in curve]
        if not points:
            continue
        drawing = Drawing(f"{op}, {ranks} ranks: time over size", [size for size, _ in points],
                          [time for _, time in points])
        for number, (name, curve) in enumerate(curves.items()):
            drawing.curve(number, name, curve)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{op}-{ranks}.svg").write_text(drawing.svg(), encoding="utf-8")
