"""A command whose options may each be given once: the last of two is never taken in silence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

__all__ = ["OnceCommand"]


class OnceCommand(TyperCommand):
    """Refuses an option of one value that is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            if order.count(param) > 1 and _takes_one_value(param):
                raise ValueError(_twice(param))
        return super().parse_args(ctx, args)


def _takes_one_value(param: Any) -> bool:
    is_option = param.param_type_name == "option"
    return is_option and not (param.multiple or param.is_flag or param.count)


def _twice(param: Any) -> str:
    message = f"Got {param.opts[0]} more than once, but expected one value."
    if param.name != "concept":
        return message
    from unspot.labels import TWO_CONCEPTS

    return f"{message} {TWO_CONCEPTS}"
