# SPDX-License-Identifier: Apache-2.0
"""Pictures as SVG: lines, bars, steps over time, heat maps. Colours, font and frame are those of
`divvy sim` and `divvy plot` (src/cmdline/svg.c). Pure: numbers in, text out."""

import math
from html import escape
from typing import NamedTuple

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b14a8b", "#3a9bd9", "#c28a00", "#5b4fa2", "#7a7a7a")
INK, PALE, GRID = "#1f2933", "#616e7c", "#e4e7eb"
FONT = "Inter, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
WIDTH, HEIGHT = 960, 460
LEFT, RIGHT, TOP, BOTTOM = 78, 178, 84, 66
LABEL = 19  # height of a line's name at the right
TICKS = 7


class Axis(NamedTuple):
    title: str
    low: float
    high: float
    log: bool = False
    percent: bool = False

    def part(self, value):
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self):
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            return [10.0**e for e in range(first, math.floor(math.log10(self.high) + 1e-9) + 1)]
        raw = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def text(self, value):
        return f"{100 * value:g} %" if self.percent else f"{value:,.10g}"


class Line(NamedTuple):
    name: str
    points: list  # (x, y) or (x, y, half of its interval)
    dashed: bool = False
    marks: bool = True


def x_of(axis, value):
    return LEFT + (WIDTH - LEFT - RIGHT) * axis.part(value)


def y_of(axis, value):
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - axis.part(value))


def text(x, y, words, **style):
    more = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(str(words))}</text>'


def stroke(x1, y1, x2, y2, colour, width=1.0):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"/>'
    )


def frame(title, subtitle):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="{FONT}" font-size="13" role="img">',
        f"<title>{escape(title)} (simulated)</title>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" fill="#ffffff" ' f'stroke="{GRID}"/>',
        f'<text x="{LEFT}" y="36" font-size="19" font-weight="600" fill="{INK}">{escape(title)}'
        '<tspan dx="7" fill="#b45309" font-weight="400">(simulated)</tspan></text>',
        text(LEFT, 58, subtitle, fill=PALE),
    ]


def draw_y(axis, right=WIDTH - RIGHT):
    out = []
    for value in axis.ticks():
        y = y_of(axis, value)
        out += [stroke(LEFT, y, right, y, GRID), text(LEFT - 8, y + 4, axis.text(value), text_anchor="end", fill=PALE)]
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    out.append(
        text(0, 0, axis.title, text_anchor="middle", fill=PALE, transform=f"translate(20 {middle:.0f}) rotate(-90)")
    )
    return out


def draw_x(axis, places=None):
    bottom = HEIGHT - BOTTOM
    out = [stroke(LEFT, bottom, WIDTH - RIGHT, bottom, PALE)]
    for value in places or axis.ticks():
        out.append(text(x_of(axis, value), bottom + 20, axis.text(value), text_anchor="middle", fill=PALE))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, axis.title, text_anchor="middle", fill=PALE))
    return out


def spread(wanted, height, bottom):
    """Labels at these heights, moved so that none covers another."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    for before, i in zip(order, order[1:]):
        placed[i] = max(placed[i], placed[before] + height)
    for i in reversed(order):
        placed[i] = min(placed[i], bottom)
        bottom = placed[i] - height
    return placed


def names_at(names, heights):
    places = spread(heights, LABEL, HEIGHT - BOTTOM)
    return [
        text(WIDTH - RIGHT + 12, y + 4, name, fill=PALETTE[i % len(PALETTE)], font_weight=600)
        for i, (name, y) in enumerate(zip(names, places))
    ]


def whisker(x, low, high, colour):
    return [
        stroke(x, low, x, high, colour, 1.2),
        stroke(x - 3, low, x + 3, low, colour, 1.2),
        stroke(x - 3, high, x + 3, high, colour, 1.2),
    ]


def lines(title, subtitle, x, y, all_lines, bands=()):
    """Lines with the intervals of their points. bands: (y, words), drawn across the picture."""
    out = frame(title, subtitle) + draw_y(y) + draw_x(x)
    for value, words in bands:
        at = y_of(y, value)
        out += [
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="{PALE}" '
            'stroke-dasharray="2 4"/>',
            text(LEFT + 6, at - 5, words, fill=PALE, font_size=11),
        ]
    for i, line in enumerate(all_lines):
        colour = PALETTE[i % len(PALETTE)]
        path = " ".join(f"{x_of(x, p[0]):.1f},{y_of(y, p[1]):.1f}" for p in line.points)
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for p in line.points if line.marks else ():
            at = x_of(x, p[0])
            out.append(f'<circle cx="{at:.1f}" cy="{y_of(y, p[1]):.1f}" r="3" fill="{colour}"/>')
            if len(p) > 2 and p[2]:
                out += whisker(at, y_of(y, p[1] - p[2]), y_of(y, p[1] + p[2]), colour)
    out += names_at([line.name for line in all_lines], [y_of(y, line.points[-1][1]) for line in all_lines])
    return "\n".join(out + ["</svg>\n"])


def bars(title, subtitle, y, groups, names, values, bands=()):
    """values[group][name] is (mean, half of its interval), in the order of groups and names."""
    out = frame(title, subtitle) + draw_y(y)
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = min(room * 0.8 / len(names), 60)
    bottom = HEIGHT - BOTTOM
    for g, group in enumerate(groups):
        middle = LEFT + room * (g + 0.5)
        out.append(text(middle, bottom + 20, group, text_anchor="middle", fill=PALE))
        for i, (mean, half) in enumerate(values[g]):
            left, top = middle + (i - len(names) / 2) * width, y_of(y, mean)
            out.append(
                f'<rect x="{left + 1:.1f}" y="{top:.1f}" width="{width - 2:.1f}" '
                f'height="{bottom - top:.1f}" fill="{PALETTE[i % len(PALETTE)]}"/>'
            )
            if half:
                out += whisker(left + width / 2, y_of(y, mean - half), y_of(y, mean + half), INK)
    for value, words in bands:
        at = y_of(y, value)
        out += [
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="{INK}" '
            'stroke-dasharray="2 4"/>',
            text(LEFT + 6, at - 5, words, fill=INK, font_size=11),
        ]
    out.append(stroke(LEFT, bottom, WIDTH - RIGHT, bottom, PALE))
    if len(names) > 1:
        out += names_at(names, [TOP + 12 + LABEL * i for i in range(len(names))])
    return "\n".join(out + ["</svg>\n"])


def matrix(title, subtitle, columns, rows, cells, x_title):
    """cells[row][column] is (text, darkness from 0 to 1, whether the cell is as expected)."""
    out = frame(title, subtitle)
    left, right = 220, 40
    width = (WIDTH - left - right) / len(columns)
    height = min((HEIGHT - TOP - BOTTOM) / len(rows), 40)
    for r, row in enumerate(rows):
        y = TOP + r * height
        out.append(text(left - 10, y + height / 2 + 4, row, text_anchor="end", fill=INK))
        for c, (words, dark, fine) in enumerate(cells[r]):
            x = left + c * width
            out.append(
                f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{width - 2:.1f}" '
                f'height="{height - 2:.1f}" fill="#0072b2" fill-opacity="{0.05 + 0.6 * dark:.2f}" '
                f'stroke="{"none" if fine else "#d55e00"}" stroke-width="3"/>'
            )
            out.append(text(x + width / 2, y + height / 2 + 4, words, text_anchor="middle", fill=INK))
    bottom = TOP + len(rows) * height
    for c, column in enumerate(columns):
        out.append(text(left + (c + 0.5) * width, bottom + 18, column, text_anchor="middle", fill=PALE))
    out.append(text(left + (WIDTH - left - right) / 2, bottom + 42, x_title, text_anchor="middle", fill=PALE))
    return "\n".join(out + ["</svg>\n"])
