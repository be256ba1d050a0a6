"""The outcome in plain words: what the strongest attacker still recovers, against chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspot.report.columns import Column
from unspot.report.contents import Attack, Contents, Tone, Verdict
from unspot.report.tables import strongest
from unspot.report.wording import value_text

__all__ = ["verdicts"]

#: From this share of the attackers' advantage on, "most" of it is gone.
MOST = 0.8
#: A two-sample p-value that says so, as in a certificate: half of 0.05, attackers have the other.
CLASSES_DIFFER = 0.025


def verdicts(contents: Contents, columns: Sequence[Column]) -> tuple[Verdict, ...]:
    """One verdict for every eraser that was attacked."""
    found = (_verdict(i, contents, column) for i, column in enumerate(columns))
    return tuple(verdict for verdict in found if verdict is not None)


def _verdict(i: int, contents: Contents, column: Column) -> Verdict | None:
    attack, chance = strongest(contents, i + 1), contents.chance
    if attack is None or chance is None:
        return None
    leaks = _leaks(contents, i + 1, column)
    gone = _gone(contents, attack, chance)
    tone: Tone = "good" if not leaks else "unsure" if gone is not None and gone >= MOST else "bad"
    number = sum(a.column == i + 1 for a in contents.attacks)
    certificate = column.certificate
    return Verdict(
        column=i,
        tone=tone,
        headline=_headline(tone, gone, attack, chance),
        sentence=_sentence(attack, chance, number, contents),
        short=f"{value_text(attack.accuracy.value, 'share')}, by {attack.attacker}",
        details=(_limits(contents, i + 1) if certificate is None else _certified(certificate),),
    )


def _certified(certificate: Any) -> str:
    """The certificate's own sentence."""
    return f"Certificate: {certificate.sentence}"


def _limits(contents: Contents, column: int) -> str:
    """What an evaluation cannot say."""
    highest = max(a.accuracy.high or 0.0 for a in contents.attacks if a.column == column)
    reach = f"Intervals reach up to {value_text(highest, 'share')}. " if highest else ""
    return (
        f"{reach}This is an evaluation and no certificate: unspot certify tells how small a leak "
        "the rows could have shown."
    )


def _leaks(contents: Contents, number: int, column: Column) -> bool:
    """The certificate's verdict; without one, an attacker above chance or classes that differ."""
    if column.certificate is not None:
        return bool(column.certificate.leaks)
    law = column.row("two_sample")
    if law is not None and law.after is not None and law.after.mean <= CLASSES_DIFFER:
        return True
    accuracies = [a.accuracy for a in contents.attacks if a.column == number]
    lows = [a.value if a.low is None else a.low for a in accuracies]
    return contents.chance is not None and max(lows) > contents.chance


def _gone(contents: Contents, attack: Attack, chance: float) -> float | None:
    """The share of the strongest attacker's advantage over chance that erasure took away."""
    before = strongest(contents, 0)
    if before is None or before.accuracy.value <= chance:
        return None
    advantage = max(attack.accuracy.value - chance, 0.0)
    return max(0.0, 1 - advantage / (before.accuracy.value - chance))


def _headline(tone: Tone, gone: float | None, attack: Attack, chance: float) -> str:
    if tone == "good":
        return "No attacker found the concept"
    low = attack.accuracy.low
    if low is not None and low <= chance:
        return "Attackers are at chance, yet the classes still differ a little"
    if tone == "unsure" and gone is not None:
        return f"{100 * gone:.0f} % of what attackers could read is gone"
    return "The concept can still be read"


def _sentence(attack: Attack, chance: float, number: int, contents: Contents) -> str:
    before = strongest(contents, 0)
    was = f" (before erasure: {value_text(before.accuracy.value, 'share')})" if before else ""
    of = (
        f"the strongest of {number} attackers, {attack.attacker},"
        if number > 1
        else attack.attacker
    )
    share = value_text(attack.accuracy.value, "share")
    text = f"{of} is right on {share} of the held-out rows, every class counted alike{was}; "
    text += f"guessing gets {value_text(chance, 'share')}."
    return text[0].upper() + text[1:]
