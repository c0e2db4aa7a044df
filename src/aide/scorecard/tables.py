"""Tables of the card for a page: each a list of lines, dictionaries of texts by heading."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aide.reporting.numbers import short, with_error
from aide.scorecard.pictures import number

if TYPE_CHECKING:
    from aide.scorecard.card import Scorecard

Row = Mapping[str, Any]
Line = dict[str, str]
NOTHING = "–"


def row_line(row: Row) -> Line:
    """Return all that a row says in short."""
    line = {
        "posterior": row["posterior"],
        "d": str(row.get("dimension", NOTHING)),
        "algorithm": row["algorithm"],
    }
    if "reason" in row:
        return line | {"divergence (nats)": NOTHING, "verdict": "none", "because": row["reason"]}
    gradients = row.get("num_gradients")
    return line | {
        "divergence (nats)": _nats(row),
        "95%": f"{_shown(row, 'low')} to {_shown(row, 'high')}",
        "worst mean (sd)": _worst(row, "mean"),
        "worst sd (ratio)": _worst(row, "sd"),
        "worst 90% interval holds": _worst(row, "interval"),
        "any probability ≤": _shown(row, "total_variation"),
        "k-hat": _shown(row, "k_hat"),
        "R-hat": _shown(row, "rhat", 4),
        "looseness": _shown(row, "looseness"),
        "gradients": NOTHING if gradients is None else f"{gradients:,}",
        "seconds": _shown(row, "seconds_fit"),
        "verdict": row["verdict"] or NOTHING,
        "because": row["because"],
    }


def silent_lines(card: "Scorecard") -> list[Line]:
    """Return rows that fail the tolerance although k-hat or R-hat raises no doubt."""
    rows = sorted(
        (*card.silent, *card.silent_rhat), key=lambda row: -abs(number(row.get("worst_mean")))
    )
    return [
        {
            "posterior": row["posterior"],
            "algorithm": row["algorithm"],
            "k-hat": _shown(row, "k_hat"),
            "R-hat": _shown(row, "rhat", 4),
            "divergence (nats)": _nats(row),
            "worst mean (sd)": _worst(row, "mean"),
            "worst sd (ratio)": _worst(row, "sd"),
            "worst 90% interval holds": _worst(row, "interval"),
        }
        for row in rows
    ]


def gold_lines(card: "Scorecard") -> list[Line]:
    """Return made gold standards beside the reference draws, the farthest first."""
    flagged = {row["posterior"] for row in card.flagged}
    silent = {row["posterior"] for row in card.disagreements}
    return [
        {
            "posterior": row["posterior"],
            "d": str(row["dimension"]),
            "divergence (nats)": _nats(row),
            "95%": f"{_shown(row, 'low')} to {_shown(row, 'high')}",
            "largest z": _shown(row, "largest_z"),
            "within 0.1 nats": row["verdict"],
            "its own verdict": row["own_verdict"],
            "its own looseness (nats)": with_error(
                number(row["own_looseness"]), number(row["own_looseness_std_error"])
            ),
            "seconds": _shown(row, "seconds_fit"),
            "said": "silent" if row["posterior"] in silent else _own_words(row, flagged),
        }
        for row in sorted(card.made, key=lambda row: -number(row["value"]))
    ]


def algorithm_lines(card: "Scorecard") -> list[Line]:
    """Return one line per algorithm: verdicts, nats and seconds over all posteriors."""
    grid = card.grid()
    lines = () if grid is None else grid.lines
    return [dict(zip(grid.titles, line, strict=True)) for line in lines if grid is not None]


def reason_lines(card: "Scorecard") -> list[Line]:
    """Return the reasons of rows without a number, and which rows they are."""
    rows: dict[str, dict[str, list[str]]] = {}
    for row in card.failed:
        of_reason = rows.setdefault(row["reason"], {})
        of_reason.setdefault(row["posterior"], []).append(row["algorithm"])
    for posterior, algorithm in card.missing:
        rows.setdefault("Not run yet.", {}).setdefault(posterior, []).append(algorithm)
    return [
        {
            "rows": str(sum(map(len, found.values()))),
            "which": "; ".join(f"{name}: {', '.join(which)}" for name, which in found.items()),
            "reason": reason,
        }
        for reason, found in sorted(rows.items(), key=lambda one: -sum(map(len, one[1].values())))
    ]


def second_lines(card: "Scorecard") -> list[Line]:
    """Return where the time went, in minutes of processes."""
    total = sum(card.seconds.values())
    lines = [
        {"part": part, "minutes": short(one / 60, 3), "share": f"{100 * one / total:.0f}%"}
        for part, one in card.seconds.items()
        if total > 0
    ]
    return [*lines, {"part": "all", "minutes": short(total / 60, 3), "share": "100%"}]


TABLES: dict[str, Callable[["Scorecard"], Sequence[Line]]] = {
    "rows": lambda card: [row_line(row) for row in card.cells],
    "algorithms": algorithm_lines,
    "silent": silent_lines,
    "gold standards": gold_lines,
    "reasons": reason_lines,
    "seconds": second_lines,
}
"""Tables by name."""


def as_markdown(lines: Sequence[Line]) -> str:
    """Return lines as a table of a Markdown page."""
    titles = list(dict.fromkeys(title for line in lines for title in line))
    rows = [titles, ["---"] * len(titles)]
    rows += [[line.get(title, NOTHING).replace("|", "\\|") for title in titles] for line in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _nats(row: Row) -> str:
    return with_error(number(row["value"]), number(row["std_error"]))


def _shown(row: Row, entry: str, digits: int = 2) -> str:
    return NOTHING if row.get(entry) is None else short(number(row[entry]), digits)


def _worst(row: Row, kind: str) -> str:
    value = _shown(row, f"worst_{kind}")
    return value if value == NOTHING else f"{value} ({row[f'worst_{kind}_of']})"


def _own_words(row: Row, flagged: set[str]) -> str:
    if row["posterior"] not in flagged:
        return "no doubt"
    return "; ".join(row["own_doubts"]) or f"its own verdict: {row['own_verdict']}"
