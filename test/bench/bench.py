#!/usr/bin/env python3
"""Runs libnccom, the other libraries that are built and the hand-made floor in turns, and compares.

In each round all programs run once, in random order, so that they see the same machine; a probe
before and after each run says how far apart the cores were. Only runs of one round whose probes
agree are compared; the table has the median and the spread of the rounds' ratios. Writes
results.csv and the curves (SVG) to --out; the exit status is 1 if a figure misses its limit, 2 if
a program failed."""
import argparse
import csv
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from bench_curves import write_curves
from bench_table import Results, write_table

OPS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "alltoall", "sendrecv",
       "pingpong", "barrier"]
COLUMNS = ["name", "op", "ranks", "bytes", "place", "calls", "repetitions", "median_us", "p10_us",
           "min_us", "algbw_GBps", "busbw_GBps", "wrong"]
MORE = ["round", "exchange_ns", "handover_GBps", "others_cores"]

# A heap that is never given back: without it a library that allocates in a call pays for every
# page of it again. It is the peers' best case.
KEPT_HEAP = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
                               ":glibc.malloc.top_pad=268435456"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MOVED = 1.4  # times: the cores have moved between two probes


class Program:
    """One program in one form: a name of `who/form`, who it is, and how it is started."""

    def __init__(self, name, command, env=None, kind="peer", ops=None, least=0):
        self.name, self.command, self.kind = name, command, kind
        self.env, self.ops, self.least = env or {}, ops, least


def started(path, mode):
    return lambda n: [path, "--ranks", str(n), "--mode", mode]


def mpirun(launcher, path, *options):
    return lambda n: [launcher, *options, "-np", str(n), path]


def programs(binaries, ranks, cores, ours, peers):
    """All that can run `ranks` ranks here: ours, the floor, and the peers that are built."""
    def path(name):
        return str(binaries / name)

    found = []
    if "procs" in ours:
        found.append(Program("nccom/procs", started(path("bench_nccom"), "procs"), kind="ours"))
    if "malloc" in ours:
        found.append(Program("nccom/malloc", started(path("bench_nccom"), "malloc"), kind="ours",
                             ops=["all_reduce"], least=512 << 10))
    if "threads" in ours:
        found.append(Program("nccom/threads", started(path("bench_nccom"), "threads"), kind="ours"))
    found.append(Program("floor/procs", started(path("bench_floor"), "procs"), kind="floor"))
    if "threads" in ours:
        found.append(Program("floor/threads", started(path("bench_floor"), "threads"),
                             kind="floor"))
    if os.access(path("bench_openmpi"), os.X_OK):
        run = mpirun("mpirun.openmpi", path("bench_openmpi"), "--oversubscribe", "--bind-to", "none")
        spin = {**KEPT_HEAP, **AS_ROOT, "OMPI_MCA_mpi_yield_when_idle": "0"}
        if ranks <= cores:
            found.append(Program("openmpi/cma", run, spin))
            found.append(Program("openmpi/nocma", run, {
                **spin, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}))
        else:
            waits = {**spin, "OMPI_MCA_mpi_yield_when_idle": "1"}
            found.append(Program("openmpi/yield", run, waits))
            found.append(Program("openmpi/sm", run, {**waits, "OMPI_MCA_coll_sm_priority": "100"}))
    if os.access(path("bench_mpich"), os.X_OK):
        found.append(Program("mpich/ch4", mpirun("mpiexec.mpich", path("bench_mpich")), KEPT_HEAP))
    if os.access(path("bench_gloo"), os.X_OK):
        found.append(Program("gloo/tcp", started(path("bench_gloo"), "procs"), KEPT_HEAP))
    return [program for program in found
            if program.kind != "peer" or program.name.split("/")[0] in peers]


def busy_seconds():
    """What all cores have worked so far."""
    fields = [int(word) for word in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def end(process):
    """Ends all processes of a program's session: a rank that stayed would spin through the rest."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if os.getsid(int(entry.name)) == process.pid:
                    os.kill(int(entry.name), number)
            except (ProcessLookupError, PermissionError):
                pass
        if number == signal.SIGTERM:
            time.sleep(0.5)


def execute(command, env, timeout):
    """(exit status, standard output, standard error); the status is None after a timeout."""
    process = subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        return None, out, err
    except BaseException:
        end(process)
        raise


class Driver:
    def __init__(self, args):
        self.args, self.binaries = args, Path(args.build) / "bin"
        self.failures, self.rows, self.loads = [], [], []
        self.yields = (0.0, 0.0)  # microseconds, threads and processes

    def probe(self):
        status, out, err = execute([str(self.binaries / "bench_floor"), "--probe"], {}, 60)
        if status != 0:
            sys.exit(f"bench_floor --probe failed: {err.strip()}")
        exchange, handover, *yields = [float(word) for word in out.split()]
        self.yields = tuple(min(a, b) if a else b for a, b in zip(self.yields, yields))
        return exchange, handover

    def run(self, program, ranks, number, before):
        """Runs a program and keeps its lines, with what the probes say; returns the probe after."""
        args = self.args
        sizes = [size for size in args.sizes if size >= program.least]
        ops = [op for op in args.ops if op in (program.ops or OPS)]
        if not sizes or not ops:
            return before
        command = program.command(ranks) + [
            "--name", program.name, "--ops", ",".join(ops), "--sizes", ",".join(map(str, sizes)),
            "--repetitions", str(args.repetitions), "--limit", str(args.limit)]
        start, busy, own = time.time(), busy_seconds(), os.times()
        status, out, err = execute(command, program.env, args.timeout)
        own_seconds = sum(os.times()[2:4]) - sum(own[2:4])
        others = max(0.0, (busy_seconds() - busy - own_seconds) / (time.time() - start))
        after = self.probe()
        moved = max(before[0], after[0]) > MOVED * min(before[0], after[0])
        exchange = 0 if moved else (before[0] + after[0]) / 2
        lines = [line.split(",") for line in out.splitlines() if line.startswith(program.name)]
        rows = [dict(zip(COLUMNS, line)) for line in lines if len(line) == len(COLUMNS)]
        for row in rows:
            row.update(round=number, exchange_ns=f"{exchange:.1f}",
                       handover_GBps=f"{(before[1] + after[1]) / 2:.2f}",
                       others_cores=f"{others:.2f}")
        self.rows += rows
        self.loads.append(others)
        state = "ok" if status == 0 else "timed out" if status is None else f"status {status}"
        print(f"round {number}, {ranks} ranks, {program.name:14s} {time.time() - start:6.1f} s, "
              f"others {others:.2f} cores, exchange "
              f"{'moved' if moved else f'{exchange:.0f} ns'}, {len(rows)} lines, {state}", flush=True)
        if status != 0 or not rows:
            self.failures.append(f"{program.name}, {ranks} ranks: {state}: {err.strip()[-400:]}")
        return after

    def rounds(self):
        cores = len(os.sched_getaffinity(0))
        for number in range(self.args.rounds):
            for ranks in self.args.ranks:
                order = programs(self.binaries, ranks, cores, self.args.ours,
                                 self.args.peers)
                random.shuffle(order)
                before = self.probe()
                for program in order:
                    before = self.run(program, ranks, number, before)

    def store(self, out):
        out.mkdir(parents=True, exist_ok=True)
        with open(out / "results.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS + MORE)
            writer.writeheader()
            writer.writerows(self.rows)


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def listed(of):
    return lambda text: [of(word) for word in text.split(",")]


def op(text):
    if text not in OPS:
        raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(OPS)}")
    return text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--out", help="where results go (BUILD/bench)")
    parser.add_argument("--quick", action="store_true", help="2 ranks, few sizes: two minutes")
    parser.add_argument("--ranks", type=listed(int), help="2,4,8")
    parser.add_argument("--ops", type=listed(op), default=OPS, help=",".join(OPS))
    parser.add_argument("--sizes", type=listed(size), help="8,32K,8M: bytes as nccl-tests has them")
    parser.add_argument("--rounds", type=int, help="how often each program runs")
    parser.add_argument("--ours", type=listed(str), help="procs,malloc,threads")
    parser.add_argument("--peers", type=listed(str), default=["openmpi", "mpich", "gloo"],
                        help="openmpi,mpich,gloo (those that are built), or none")
    parser.add_argument("--repetitions", type=int, help="of a case in one run")
    parser.add_argument("--limit", type=float, help="seconds of a case in one run")
    parser.add_argument("--timeout", type=float, default=300, help="seconds of a run")
    parser.add_argument("--figure", choices=["median", "p10", "auto"], default="auto",
                        help="of the repetitions; auto: p10 if others use the machine")
    parser.add_argument("--from-csv", help="no runs: tables and curves of a results.csv")
    parser.add_argument("--docs", help="a docs folder: put table and curves into performance.md")
    args = parser.parse_args()
    quick = args.quick
    args.ranks = args.ranks or ([2] if quick else [2, 4, 8])
    args.sizes = args.sizes or [size(text) for text in (
        "8,512,32K,512K,8M" if quick else "8,32,128,512,2K,8K,32K,128K,512K,2M,8M,32M,64M,128M"
    ).split(",")]
    args.rounds = args.rounds or (2 if quick else 5)
    args.ours = args.ours or (["procs", "malloc"] if quick else ["procs", "malloc", "threads"])
    args.repetitions = args.repetitions or (9 if quick else 15)
    args.limit = args.limit or (0.1 if quick else 1)
    args.out = Path(args.out or Path(args.build) / "bench")
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends what runs
    driver = Driver(args)
    if args.from_csv:
        with open(args.from_csv, newline="") as file:
            driver.rows = list(csv.DictReader(file))
        driver.loads = [float(row["others_cores"]) for row in driver.rows]
        driver.probe()
    else:
        driver.rounds()
        driver.store(args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    load = statistics.median(driver.loads) if driver.loads else 0
    figure = args.figure if args.figure != "auto" else "median" if load < 0.2 else "p10"
    results = Results(driver.rows, figure)
    missed = write_table(results, driver.yields, load, args.out, args.docs)
    write_curves(results, args.out, args.docs)
    wrong = sum(int(row["wrong"]) for row in driver.rows)
    for failure in driver.failures:
        print(f"FAILED {failure}")
    if wrong:
        print(f"FAILED {wrong} elements are wrong")
    sys.exit(2 if driver.failures or wrong else 1 if missed else 0)


if __name__ == "__main__":
    main()
