"""What bench.py compares: results by round, the limits, and the table of ratios."""
import math
import os
import statistics

MOVED = 1.4
SMALL, HUGE = (8, 512), (8 << 20, 1 << 40)
MOVES = ["all_gather", "alltoall", "sendrecv", "broadcast"]
EVERY = ["all_reduce", "reduce_scatter", *MOVES, "pingpong", "barrier"]
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def at(size):
    return (size, size)


# (our form, the numbers of ranks, operations, sizes from and to, ours/best peer, ours/floor)
LIMITS = [
    ("procs", [2], ["all_reduce", "barrier"], SMALL, 1.0, 2.0),
    ("procs", [2], ["reduce_scatter", *MOVES], SMALL, 1.0, 2.0),
    ("procs", [2], ["pingpong"], at(8), 0.9, 1.5),
    ("procs", [2], ["pingpong"], at(32 << 10), 0.35, 1.5),
    ("procs", [2], ["all_reduce"], at(32 << 10), 0.5, 1.3),
    ("procs", [2], ["all_reduce"], at(512 << 10), 0.3, 1.2),
    ("procs", [2], ["all_reduce"], at(8 << 20), 0.25, 1.15),
    ("procs", [2], ["all_reduce"], at(128 << 20), 0.3, 1.1),
    ("procs", [2], ["reduce_scatter"], at(512 << 10), 0.25, 1.2),
    ("procs", [2], ["reduce_scatter"], at(8 << 20), 0.25, 1.2),
    ("procs", [2], MOVES, at(512 << 10), 0.45, 1.2),
    ("procs", [2], MOVES, HUGE, 0.6, 1.2),
    ("malloc", [2], ["all_reduce"], (512 << 10, 1 << 40), 0.6, None),
    ("procs", [4, 8], EVERY, SMALL, 1.0, None),
    ("procs", [4, 8], EVERY, (32 << 10, 64 << 20), 0.5, 1.5),
    ("threads", [8], EVERY, (8, 64 << 20), 0.8, None),
]
INIT_US = {2: 10e3, 32: 100e3}  # all ranks joining, microseconds
BOUND = 1.5  # all-reduce of 8 bytes with more ranks than cores, in hand-overs


def human(size):
    for shift, unit in ((20, "M"), (10, "K")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}iB"
    return f"{size} B"


def short(time):
    return f"{time / 1000:.3g} ms" if time >= 1000 else f"{time:.3g} µs"


class Results:
    """The chosen figure of every case, by round."""

    def __init__(self, rows, figure):
        self.figure = figure
        self.times, self.probes = {}, {}
        for row in rows:
            key = (row["op"], int(row["ranks"]), int(row["bytes"]))
            # A call that moves nothing takes no time that can be divided by.
            time = max(float(row[f"{figure}_us"]), 1e-3)
            self.times.setdefault(key, {}).setdefault(row["name"], {})[int(row["round"])] = time
            probe = (int(row["round"]), key[1], row["name"])
            self.probes[probe] = float(row["exchange_ns"])

    def cases(self):
        return sorted(self.times, key=lambda key: (key[1], key[0], key[2]))

    def median(self, key, name):
        found = self.times.get(key, {}).get(name)
        return statistics.median(found.values()) if found else None

    def alike(self, number, ranks, a, b):
        """Whether both ran while the cores were equally far apart."""
        first, second = self.probes[number, ranks, a], self.probes[number, ranks, b]
        near = min(first, second)
        one_core = first == second == 0 and len(os.sched_getaffinity(0)) == 1
        return one_core or (near > 0 and max(first, second) <= MOVED * near)

    def names(self, key, who):
        """Of `nccom`, `floor`; or of peers."""
        return [name for name in self.times[key]
                if (name.split("/")[0] == who if who else name.split("/")[0] not in ("nccom", "floor"))]

    def ratios(self, key, ours, others):
        """(ratios to the best of `others` in each round that can be compared, who that was)."""
        found, best = [], []
        for number, time in self.times[key].get(ours, {}).items():
            rivals = [(times[number], name) for name, times in self.times[key].items()
                      if name in others and number in times
                      and self.alike(number, key[1], ours, name)]
            if rivals:
                found.append(time / min(rivals)[0])
                best.append(min(rivals)[1])
        return found, max(set(best), key=best.count) if best else ""


def limits_of(form, key):
    op, ranks, size = key
    for limit_form, all_ranks, ops, (least, most), peer, floor in LIMITS:
        if form == limit_form and ranks in all_ranks and op in ops and (
                op == "barrier" and least == SMALL[0] or least <= size <= most):
            return peer, floor
    return None, None


def spread(ratios):
    if not ratios:
        return "–"
    text = f"{statistics.median(ratios):.2f}"
    return text if len(ratios) == 1 else f"{text} ({min(ratios):.2f}–{max(ratios):.2f})"


def judged(ratios, limit):
    """'' if there is nothing to judge."""
    if limit is None or not ratios:
        return ""
    return "ok" if statistics.median(ratios) <= limit else "missed"


def row_of(results, key, ours, yields):
    op, ranks, size = key
    form = ours.split("/")[1]
    time = results.median(key, ours)
    to_peer, best = results.ratios(key, ours, results.names(key, None))
    floor = "floor/threads" if form == "threads" else "floor/procs"
    to_floor, _ = results.ratios(key, ours, [floor])
    peer_limit, floor_limit = limits_of(form, key)
    verdicts = [judged(to_peer, peer_limit), judged(to_floor, floor_limit)]
    note = ""
    turns = math.ceil(ranks / len(os.sched_getaffinity(0))) - 1
    hand_over = yields[0 if form == "threads" else 1]
    bounded = op == "all_reduce" and size == 8 and (form, ranks) in (
        ("procs", 4), ("procs", 8), ("threads", 8))
    if bounded and turns > 0 and hand_over > 0:
        bound = turns * hand_over
        note = f"{time / bound:.1f} × {turns} hand-overs"
        verdicts.append("ok" if time <= BOUND * bound else "missed")
    if op == "init" and ranks in INIT_US:
        note = f"≤ {short(INIT_US[ranks])}"
        verdicts.append("ok" if time <= INIT_US[ranks] else "missed")
    verdict = "missed" if "missed" in verdicts else "ok" if "ok" in verdicts else ""
    peer_time, floor_time = results.median(key, best), results.median(key, floor)
    return [str(ranks), form, op, human(size), short(time),
            f"{best} {short(peer_time)}" if peer_time else "–", spread(to_peer),
            f"{peer_limit}" if peer_limit else "", short(floor_time) if floor_time else "–",
            spread(to_floor), f"{floor_limit}" if floor_limit else "", verdict, note]


HEAD = ["ranks", "memory", "operation", "size", "ours", "best peer", "ours/peer", "≤", "floor",
        "ours/floor", "≤", "", ""]


def in_columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def as_markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def put(document, text):
    """Puts text between the marks of a document."""
    with open(document, encoding="utf-8") as file:
        before, _, rest = file.read().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{document} lacks '{BEGIN}' or '{END}'")
    with open(document, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


def write_table(results, yields, load, out, docs):
    """Prints the table, writes table.md; returns how many rows miss a limit."""
    rows = [HEAD]
    for key in results.cases():
        rows += [row_of(results, key, ours, yields) for ours in sorted(results.names(key, "nccom"))]
    if len(rows) == 1:
        print("nothing of ours was measured")
        return 0
    probes = [probe for probe in results.probes.values() if probe > 0]
    exchange = f"{min(probes):.0f} to {max(probes):.0f} ns" if probes else "unknown"
    facts = (f"Figures are the rounds' medians of the repetitions' {results.figure}. "
             f"{len(os.sched_getaffinity(0))} cores; an exchange between two took {exchange}; "
             f"a yield {yields[0]:.1f} µs between threads, {yields[1]:.1f} µs between processes; "
             f"others used {load:.2f} cores.")
    verdicts = [row[11] for row in rows[1:]]
    total = (f"{verdicts.count('ok')} of {len(verdicts) - verdicts.count('')} limits held; "
             f"{verdicts.count('')} rows have none, or nothing to compare with.")
    print("\n" + in_columns(rows) + f"\n\n{facts}\n{total}")
    text = f"{facts} {total}\n\n{as_markdown(rows)}"
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    if docs:
        put(os.path.join(docs, "performance.md"), text)
    return verdicts.count("missed")
