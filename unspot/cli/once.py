"""A command that takes one concept, one task, one list of features: never the last in silence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

__all__ = ["OnceCommand"]

#: Options that people repeat because they want both. Of others, as --seed, a script may give
#: another value behind its own: there the last is meant.
_ONCE = ("concept", "features", "task")


class OnceCommand(TyperCommand):
    """Refuses a second value of an option that looks like a list and is none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            if param.name in _ONCE and order.count(param) > 1:
                raise ValueError(_twice(param))
        return super().parse_args(ctx, args)


def _twice(param: Any) -> str:
    from unspot.labels import TWO_CONCEPTS

    ways_out = {"concept": f" {TWO_CONCEPTS}", "features": " Give a comma list, such as e_0,e_1."}
    message = f"Got {param.opts[0]} more than once, but expected one value."
    return message + ways_out.get(param.name, "")
