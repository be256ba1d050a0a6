"""Write the page of results from the committed result files of the benchmark.

    python tools/write_results_page.py

reads ``benchmarks/results/bench/*.jsonl`` (each made by ``unspot bench``) and writes
``docs/results.md`` and its figures. No number in the tables is typed by hand. Sentences with
numbers are made from the cells, and verdicts compare them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from markdown_table import markdown
from results_figures import plane_figure
from unspot.bench.tables import paper_tables, study_of

from unspot.bench.paper import with_paper
from unspot.io.journal import read_journal
from unspot.sweeps.grid import attack_chance
from unspot.sweeps.run import read_results
from unspot.sweeps.tables import COLUMNS, ResultLine, ResultTable, display_name, result_lines

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bench"
PAGE = ROOT / "docs" / "results.md"
STATIC = ROOT / "docs" / "_static"

#: For each file: the similar data set of the paper, and the title.
DATA = {
    "glove": ("glove", "Gender of words (GloVe 6B, 100 dimensions)"),
    "tweets": ("dial", "Dialect of tweets (MiniLM, 384 dimensions; the task is sentiment)"),
    "bios": ("bios", "Gender in biographies (MiniLM, 384 dimensions; the task is occupation)"),
}
#: If logistic regression was run on the task, it is used instead of the paper's network.
UTILITIES = ("neighbours", "task_linear", "task")
FIELD = ROOT / "docs" / "_generated" / "field.md"
FIELD_METRICS = (
    *("attack", "probe", "probe_reference", "neighbours"),
    *("task", "task_linear", "fit_seconds"),
)
#: At most this much less utility than another method is allowed; seeds sometimes vary more.
NEAR = 0.02
OURS = ("leopard", "cascade")


@dataclass(frozen=True)
class Source:
    """One result file."""

    key: str
    title: str
    lines: list[ResultLine]
    facts: dict[str, Any]
    seconds: float

    def of(self, *methods: str) -> list[ResultLine]:
        return [line for line in self.lines if line.method in methods and line.values]

    def study(self, name: str) -> list[ResultLine]:
        return [line for line in self.lines if study_of(line.method) == name and line.values]

    @property
    def chance(self) -> float:
        """The chance of an attacker."""
        return attack_chance(self.facts)

    @property
    def utilities(self) -> list[str]:
        known = [u for u in UTILITIES if any(u in line.values for line in self.lines)]
        return known[:2]

    def advantage(self, line: ResultLine, metric: str = "attack") -> float:
        """Points above chance."""
        chance = self.chance if metric == "attack" else self.facts["chance"]
        return 100 * (line.values[metric][0] - chance)


def main() -> None:
    found = [read(key) for key in DATA if (RESULTS / f"{key}.jsonl").exists()]
    for source in found:
        plane_figure(source.lines, source.utilities, source.chance).savefig(
            STATIC / f"results-{source.key}.png", dpi=120
        )
    PAGE.write_text(page(found))
    FIELD.write_text("\n\n".join(field(source) for source in found) + "\n")


def field(source: Source) -> str:
    """Every method once; methods with a rank at the one closest to half of the features."""
    chosen = tuple(_representatives(source, (*OURS, "pca", "random")))
    table = ResultTable("field", "Field", chosen, FIELD_METRICS)
    return f"**{source.title}**, chance {100 * source.chance:.1f} %\n\n{table.to_markdown()}"


def read(key: str) -> Source:
    path = RESULTS / f"{key}.jsonl"
    records = list(read_journal(path)[1].values())
    facts = records[0]["data"]
    paper, title = DATA[key]
    cells = with_paper(result_lines(read_results(path)), paper, facts["features"])
    seconds = sum(record["seconds"] for record in records)
    return Source(key, title, cells, facts, seconds)


def page(found: Sequence[Source]) -> str:
    parts = [(ROOT / "tools" / "results_head.md").read_text().strip(), _data(found)]
    for title, answer in QUESTIONS.items():
        parts += [f"## {title}", answer(found)]
    parts.append("## The tables")
    for source in found:
        parts += [f"### {source.title}", *_tables(source)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _data(found: Sequence[Source]) -> str:
    rows = [
        (
            source.title,
            " / ".join(f"{n:,}" for n in source.facts["rows"]),
            f"{100 * source.facts['chance']:.1f} %",
            str(sum(line.n_seeds for line in source.lines)),
            f"{source.seconds / 60:.0f} min",
        )
        for source in found
    ]
    head = (
        "data",
        "rows of train / validation / test",
        "largest class",
        "cells",
        "time of all cells, on a shared machine",
    )
    return markdown(head, rows)


def _tables(source: Source) -> Iterable[str]:
    for table in paper_tables(source.lines):
        if table.name in ("erasure", "fairness", "by-rank"):
            yield f"#### {table.title}"
            yield table.to_markdown()


# -- the questions -------------------------------------------------------------------------------


def cascaded_or_standard(found: Sequence[Source]) -> str:
    rows = []
    for source in found:
        pairs = _pairs(source.of("leopard"), source.of("cascade"))
        wins = sum(c.values["attack"][0] < s.values["attack"][0] for s, c in pairs)
        gains = [source.advantage(s) - source.advantage(c) for s, c in pairs]
        kept = [c.values["neighbours"][0] - s.values["neighbours"][0] for s, c in pairs]
        rows.append(
            (source.title, f"{wins} of {len(pairs)}", f"{fmean(gains):+.1f}", f"{fmean(kept):+.3f}")
        )
    head = (
        "data",
        "ranks where the cascade leaves less",
        "mean difference, points",
        "A_50% gained",
    )
    verdict = (
        "Positive values: at the same rank, the cascade leaves less for the strongest attacker."
    )
    return f"{verdict}\n\n{markdown(head, rows)}"


def steady_in_rank(found: Sequence[Source]) -> str:
    rows = []
    for source in found:
        for method in OURS:
            own = sorted(source.of(method), key=lambda line: -(line.rank or 0))
            steps = list(itertools.pairwise(own))
            against = [(a, b) for a, b in steps if _exceeds(b, a)]
            shown = ", ".join(f"{a.rank} → {b.rank}" for a, b in against) or "none"
            rows.append((source.title, display_name(method), str(len(steps)), shown))
    head = ("data", "method", "steps down", "steps where the attacker gained more than the spread")
    return markdown(head, rows)


def study_table(
    name: str, *metrics: str, beside: str | None = None
) -> Callable[[Sequence[Source]], str]:
    """The table of a study for every data set that has it, with a method to compare with."""

    def answer(found: Sequence[Source]) -> str:
        parts = []
        for source in found:
            own = source.study(name)
            ranks = {line.rank for line in own}
            own += [line for line in source.of(beside or "") if line.rank in ranks]
            table = ResultTable(name, name, tuple(sorted(own, key=_by_setting)), metrics)
            if own:
                parts += [f"**{source.title}**", table.to_markdown()]
        return "\n\n".join(parts)

    return answer


def _by_setting(line: ResultLine) -> tuple[float, float, str]:
    """From the highest rank down; numeric settings come last, in their order."""
    setting = line.method.partition("=")[2]
    return -(line.rank or 0), float(setting) if setting.replace(".", "").isdigit() else -1, setting


def strong_and_weak(found: Sequence[Source]) -> str:
    rows = []
    for source in found:
        for line in _representatives(source):
            weak = source.advantage(line, "probe_reference")
            strong = source.advantage(line)
            rows.append((source.title, _named(line), f"{weak:+.1f}", f"{strong:+.1f}"))
    head = ("data", "method", "paper's probe, points above chance", "strongest attacker")
    return markdown(head, rows)


def against_the_field(found: Sequence[Source]) -> str:
    parts = []
    for source in found:
        parts.append(f"### {source.title}")
        parts.append(f"![Attacker and utility](_static/results-{source.key}.png)")
        for utility in source.utilities:
            duels = [duel(source, rival, utility) for rival in rivals(source, utility)]
            if duels:
                parts += [_verdict(duels, utility), _duels(duels, source, utility)]
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Duel:
    """One point of another method, and our best point with at least its utility."""

    rival: ResultLine
    ours: ResultLine | None
    holds: bool


def rivals(source: Source, utility: str) -> list[ResultLine]:
    return [
        line
        for line in source.lines
        if {"attack", utility} <= set(line.values)
        and line.method.partition("/")[0] not in (*OURS, "original")
    ]


def duel(source: Source, rival: ResultLine, utility: str) -> Duel:
    """Ours may be worse in utility or attacker, but by no more than the spread over seeds."""
    able = [
        line
        for line in source.lines
        if line.method.partition("/")[0] in OURS
        and {"attack", utility} <= set(line.values)
        and line.values[utility][0]
        >= rival.values[utility][0] - min(NEAR, _spread(line, rival, utility))
    ]
    if not able:
        return Duel(rival, None, False)
    best = min(able, key=lambda line: line.values["attack"][0])
    gap = best.values["attack"][0] - rival.values["attack"][0]
    return Duel(rival, best, gap <= _spread(best, rival, "attack"))


def _verdict(duels: Sequence[Duel], utility: str) -> str:
    lost = [d for d in duels if not d.holds]
    title = COLUMNS[utility].title
    head = (
        f"By {title}: there are {len(duels)} points of other methods. For "
        f"**{len(duels) - len(lost)}** of them, ours has at least the same utility and leaves no "
        "more for the strongest attacker, within the spread over seeds."
    )
    if not lost:
        return head
    return f"{head} The exceptions are: {', '.join(_named(d.rival) for d in lost)}."


def _duels(duels: Sequence[Duel], source: Source, utility: str) -> str:
    rows = []
    for d in sorted(duels, key=lambda d: -d.rival.values[utility][0]):
        ours = ("none has this utility", "–", "–")
        if d.ours is not None:
            ours = (_named(d.ours), _share(d.ours, utility), _points(d.ours, source))
        rows.append(
            (
                _named(d.rival),
                _share(d.rival, utility),
                _points(d.rival, source),
                *ours,
                "yes" if d.holds else "**no**",
            )
        )
    title = COLUMNS[utility].title
    head = ("other method", title, "attacker", "our best", title, "attacker", "holds")
    return markdown(head, rows)


QUESTIONS: dict[str, Callable[[Sequence[Source]], str]] = {
    "Is the cascade better than the standard method at the same rank?": cascaded_or_standard,
    "Does erasure grow steadily as the rank falls?": steady_in_rank,
    "Which batch size?": study_table(
        "batch", "attack", "probe_reference", "mdl", "neighbours", "task", "fit_seconds"
    ),
    "How many kernels?": study_table(
        "kernels", "attack", "probe_reference", "mdl", "neighbours", "task"
    ),
    "The paper's solver or ours, in the same time?": study_table(
        "solver", "attack", "probe_reference", "mdl", "neighbours", "fit_seconds"
    ),
    "What does `preserve` gain?": study_table(
        *("preserve", "attack", "probe_reference", "neighbours", "variance", "task_linear"),
        beside="cascade",
    ),
    "What do strong attackers see that the paper's probe does not?": strong_and_weak,
    "Comparison with the other methods, by strongest attacker": against_the_field,
}


# -- small parts ---------------------------------------------------------------------------------


def _pairs(
    first: Iterable[ResultLine], second: Iterable[ResultLine]
) -> list[tuple[ResultLine, ResultLine]]:
    by_rank = {line.rank: line for line in second}
    return [(line, by_rank[line.rank]) for line in first if line.rank in by_rank]


def _exceeds(line: ResultLine, other: ResultLine) -> bool:
    gap = line.values["attack"][0] - other.values["attack"][0]
    return gap > _spread(line, other, "attack")


def _spread(line: ResultLine, other: ResultLine, metric: str) -> float:
    return float(line.values[metric][1] ** 2 + other.values[metric][1] ** 2) ** 0.5


def _representatives(source: Source, ranked: Sequence[str] = OURS) -> list[ResultLine]:
    """Methods without a rank, and others at the rank closest to half of the features."""
    half = source.facts["features"] / 2
    plain = [line for line in source.study("main") if line.rank is None]
    ours = []
    for method in ranked:
        own = source.of(method)
        if own:
            ours.append(min(own, key=lambda line: abs((line.rank or 0) - half)))
    return [*plain, *ours]


def _named(line: ResultLine) -> str:
    return line.name if line.rank is None else f"{line.name}, r = {line.rank}"


def _share(line: ResultLine, metric: str) -> str:
    mean, spread = line.values[metric]
    if COLUMNS[metric].unit == "share":
        return _with_spread(line, f"{100 * mean:.1f}", f"{100 * spread:.1f}")
    return _with_spread(line, f"{mean:.3f}", f"{spread:.3f}")


def _points(line: ResultLine, source: Source) -> str:
    spread = 100 * line.values["attack"][1]
    return _with_spread(line, f"{source.advantage(line):+.1f}", f"{spread:.1f}")


def _with_spread(line: ResultLine, mean: str, spread: str) -> str:
    """With one seed, no spread is shown: it is not zero, but unknown."""
    return f"{mean} ± {spread}" if line.n_seeds > 1 else mean


if __name__ == "__main__":
    main()
