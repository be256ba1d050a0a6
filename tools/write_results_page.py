"""Write the pages of results from the committed result files of the benchmark.

    python tools/write_results_page.py

reads ``benchmarks/results/bench/*.jsonl`` (each made by ``unspot lab bench``) and writes
``docs/results.md`` (for each data set a figure, a sentence and the points that no other point
beats), its figures, ``docs/rivals.md`` with the leak of each method at a budget, and
``docs/results-tables.md`` with all cells. No number is typed by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from markdown_table import markdown
from results_figures import plane_figure

from unspot.lab.bench.budgets import BudgetTable, budget_tables, by_method
from unspot.lab.bench.paper import paper_tables, study_of, with_paper
from unspot.lab.sweep import attack_chance, read_results
from unspot.lab.tables import (
    COLUMNS,
    ResultLine,
    ResultTable,
    display_name,
    result_lines,
)

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "bench"
DOCS = ROOT / "docs"

#: For each file: the similar data set of the paper, if there is one, and the title.
DATA: dict[str, tuple[str | None, str]] = {
    "glove": ("glove", "Gender of words (GloVe 6B, 100 dimensions)"),
    "tweets": ("dial", "Dialect of tweets (MiniLM, 384 dimensions; the task is sentiment)"),
    "bios": ("bios", "Gender in biographies (MiniLM, 384 dimensions; the task is occupation)"),
    "translations": (
        None,
        "Translation of verses (MiniLM, 384 dimensions; the task is the part of the Bible)",
    ),
}
#: Files of synthetic laws, whose rows have no task.
LAWS = ("variance", "xor", "ring", "mixture")
#: Leaks on a law that are so near count as equal.
LAW_SLACK = 0.02
#: If logistic regression was run on the task, it is used instead of the paper's network.
UTILITIES = ("neighbours", "task_linear", "task")
FIELD_METRICS = (
    *("attack", "probe", "probe_reference", "neighbours"),
    *("task", "task_linear", "fit_seconds"),
)
OURS = (
    *("leopard", "leopard:keep", "cascade", "cascade:keep"),
    *("transport", "transport:leopard"),
)


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

    @property
    def chance(self) -> float:
        """The chance of an attacker."""
        return attack_chance(self.facts)

    @property
    def utilities(self) -> list[str]:
        known = [u for u in UTILITIES if any(u in line.values for line in self.lines)]
        return known[:2]

    @property
    def erasures(self) -> list[ResultLine]:
        """Every cell of the methods, without studies of settings and the rows as they came."""
        return [
            line
            for line in self.lines
            if "attack" in line.values
            and line.method != "original"
            and study_of(line.method) in ("main", "rivals")
        ]


def main() -> None:
    found = [read(key, *DATA[key]) for key in DATA if (RESULTS / f"{key}.jsonl").exists()]
    laws = [read(key, None, key) for key in LAWS if (RESULTS / f"{key}.jsonl").exists()]
    for source in found:
        figure = plane_figure(source.lines, source.utilities, source.chance)
        figure.savefig(DOCS / "_static" / f"results-{source.key}.png", dpi=120)
    (DOCS / "results.md").write_text(page(found))
    (DOCS / "rivals.md").write_text(rivals(found, laws))
    (DOCS / "results-tables.md").write_text(appendix(found))
    field_tables = "\n\n".join(map(field, found))
    (DOCS / "_generated" / "field.md").write_text(f"{field_tables}\n")


def read(key: str, paper: str | None, title: str) -> Source:
    path = RESULTS / f"{key}.jsonl"
    records = read_results(path)
    facts = records[0]["data"]
    cells = with_paper(result_lines(records), paper, facts["features"])
    seconds = sum(record["seconds"] for record in records)
    return Source(key, title, cells, facts, seconds)


# -- The page --------------------------------------------------------------------------------------


def page(found: Sequence[Source]) -> str:
    parts = [(ROOT / "tools" / "results_head.md").read_text().strip(), _data(found)]
    for source in found:
        parts += [
            f"## {source.title}",
            f"![Attacker and utility](_static/results-{source.key}.png)",
            *(_who_is_ahead(source, utility) for utility in source.utilities),
            _frontier_table(source),
        ]
    return "\n\n".join(parts) + "\n"


def _data(found: Sequence[Source]) -> str:
    rows = [
        (
            source.title,
            " / ".join(f"{n:,}" for n in source.facts["rows"]),
            f"{100 * source.chance:.1f} %",
            str(sum(line.n_seeds for line in source.lines)),
        )
        for source in found
    ]
    head = ("data", "rows of train / validation / test", "chance of an attacker", "cells")
    return markdown(head, rows)


def frontier(source: Source, utility: str) -> list[ResultLine]:
    """The points that no other point beats: less for the attacker and as much utility."""
    points = [line for line in source.erasures if utility in line.values]
    return [line for line in points if not any(_beats(other, line, utility) for other in points)]


def _beats(line: ResultLine, other: ResultLine, utility: str) -> bool:
    """Whether a point is as good as another in both ways, and better in one."""
    attack, kept = (line.values[key][0] for key in ("attack", utility))
    other_attack, other_kept = (other.values[key][0] for key in ("attack", utility))
    return (
        attack <= other_attack
        and kept >= other_kept
        and (attack, kept)
        != (
            other_attack,
            other_kept,
        )
    )


def _who_is_ahead(source: Source, utility: str) -> str:
    """One sentence: which methods have the points that nothing beats."""
    points = frontier(source, utility)
    counts = {
        name: sum(line.name == name for line in points)
        for name in dict.fromkeys(line.name for line in points)
    }
    listed = sorted(counts.items(), key=lambda item: -item[1])
    ours = sum(line.method in OURS for line in points)
    return (
        f"By {COLUMNS[utility].title}, {len(points)} of {len(source.erasures)} points are beaten "
        f"by no other; {ours} of them are ours. All of them: "
        f"{', '.join(f'{name} ({n})' for name, n in listed)}."
    )


def _frontier_table(source: Source) -> str:
    """The points that are not beaten, from the most that is kept to the least."""
    on = {utility: frontier(source, utility) for utility in source.utilities}
    first = source.utilities[0]
    shown = {id(line): line for points in on.values() for line in points}.values()
    rows = [
        (
            f"**{_named(line)}**" if line.method in OURS else _named(line),
            _share(line, "attack"),
            *(
                f"{_share(line, utility)}{' ●' if line in on[utility] else ''}"
                for utility in source.utilities
            ),
        )
        for line in sorted(shown, key=lambda line: -line.values[first][0])
    ]
    titles = (f"{COLUMNS[key].title} {COLUMNS[key].better}" for key in source.utilities)
    return markdown(("method", "strongest attacker, % ↓", *titles), rows)


# -- Rivals ----------------------------------------------------------------------------------------


def rivals(found: Sequence[Source], laws: Sequence[Source]) -> str:
    """What each method leaves when a measure of utility may fall by so much."""
    parts = [(ROOT / "tools" / "rivals_head.md").read_text().strip()]
    for source in found:
        parts.append(f"## {source.title}")
        for table in _budgets(source):
            what = "A_50%" if table.utility == "neighbours" else "the accuracy of the task"
            parts += [f"By how many points {what} may fall:", table.to_markdown()]
    if laws:
        parts += ["## Synthetic laws", _law_text(laws), _law_table(laws)]
    return "\n\n".join(parts) + "\n"


def _budgets(source: Source) -> list[BudgetTable]:
    lines = [*source.of("original"), *source.erasures]
    known = budget_tables(lines, source.chance)
    return [table for utility in source.utilities for table in known if table.utility == utility]


def _law_text(laws: Sequence[Source]) -> str:
    before = ", ".join(
        f"{law.title} {100 * (law.of('original')[0].values['attack'][0] - law.chance):.0f}"
        for law in laws
    )
    return (
        "Points above guessing that the strongest attacker has, and A_50%: of all settings of a "
        f"method within {100 * LAW_SLACK:.0f} points of its least leak, the one that keeps most. "
        f"One seed. Before erasure the attacker has: {before}."
    )


def _law_table(laws: Sequence[Source]) -> str:
    """One row per method, one column per law; the least in sum comes first."""
    chosen = [
        {method: _keeps_most(own) for method, own in by_method(law.erasures).items()}
        for law in laws
    ]

    def total(method: str) -> float:
        lines = [of_law.get(method) for of_law in chosen]
        return sum(1.0 if line is None else line.values["attack"][0] for line in lines)

    rows = [
        (
            f"**{display_name(method)}**" if method in OURS else display_name(method),
            *(
                _leak_cell(of_law.get(method), law.chance)
                for of_law, law in zip(chosen, laws, strict=True)
            ),
        )
        for method in sorted(dict.fromkeys(chain(*chosen)), key=total)
    ]
    return markdown(("method", *(law.title for law in laws)), rows)


def _keeps_most(lines: Sequence[ResultLine]) -> ResultLine:
    """Of those that are near the least leak, the one that keeps most neighbours."""
    least = min(line.values["attack"][0] for line in lines)
    return max((line for line in lines if line.values["attack"][0] <= least + LAW_SLACK), key=_kept)


def _kept(line: ResultLine) -> float:
    return line.values["neighbours"][0]


def _leak_cell(line: ResultLine | None, chance: float) -> str:
    if line is None:
        return "–"
    return f"{100 * (line.values['attack'][0] - chance):+.1f} at {_kept(line):.2f}"


# -- The appendix ----------------------------------------------------------------------------------


def appendix(found: Sequence[Source]) -> str:
    parts = [(ROOT / "tools" / "results_tables_head.md").read_text().strip()]
    for source in found:
        parts += [f"## {source.title}", *_tables(source)]
    for title, answer in STUDIES.items():
        text = answer(found)
        if text:
            parts += [f"## {title}", text]
    return "\n\n".join(parts) + "\n"


def _tables(source: Source) -> Iterable[str]:
    for table in paper_tables(source.lines):
        if table.name in ("erasure", "fairness", "by-rank"):
            yield f"### {table.title}"
            yield table.to_markdown()


def study_table(
    name: str, *metrics: str, beside: str | None = None
) -> Callable[[Sequence[Source]], str]:
    """The table of a study for every data set that has it, with a method to compare with."""

    def answer(found: Sequence[Source]) -> str:
        parts = []
        for source in found:
            own = [line for line in source.lines if study_of(line.method) == name and line.values]
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


STUDIES: dict[str, Callable[[Sequence[Source]], str]] = {
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
}


def field(source: Source) -> str:
    """Every method once; methods with a rank at the one closest to half of the features."""
    chosen = tuple(_representatives(source))
    table = ResultTable("field", "Field", chosen, FIELD_METRICS)
    return f"**{source.title}**, chance {100 * source.chance:.1f} %\n\n{table.to_markdown()}"


def _representatives(source: Source) -> Iterable[ResultLine]:
    half = source.facts["features"] / 2
    by_method: dict[str, list[ResultLine]] = {}
    for line in (*source.of("original"), *source.erasures):
        by_method.setdefault(line.method, []).append(line)
    for lines in by_method.values():
        yield min(lines, key=lambda line: abs((line.rank or 0) - half))


# -- Small parts -----------------------------------------------------------------------------------


def _named(line: ResultLine) -> str:
    return line.name if line.rank is None else f"{line.name}, r = {line.rank}"


def _share(line: ResultLine, metric: str) -> str:
    """With one seed, no spread is shown: it is not zero, but unknown."""
    mean, spread = line.values[metric]
    scale, digits = (100, 1) if COLUMNS[metric].unit == "share" else (1, 3)
    text = f"{scale * mean:.{digits}f}"
    return f"{text} ± {scale * spread:.{digits}f}" if line.n_seeds > 1 else text


if __name__ == "__main__":
    main()
