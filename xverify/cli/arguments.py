"""The arguments of a command, rebuilt from its parsed options, to run it again in another process."""

from __future__ import annotations

from collections.abc import Collection

import click


def arguments(context: click.Context, without: Collection[str] = ()) -> list[str]:
    """The arguments that give a command the options which the user named; defaults are left out.

    Args:
        context: The context of the command.
        without: Names of parameters to leave out.
    """
    written: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in without or context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            continue  # they come last, after "--"
        option = max(parameter.opts, key=len)
        if isinstance(parameter, click.Option) and parameter.is_flag:
            written += [option] if value else []
        else:
            values = value if parameter.multiple else (value,)
            written += [part for each in values for part in (option, str(each))]
    positional = [
        str(each)
        for parameter in context.command.params
        if isinstance(parameter, click.Argument) and (parameter.name or "") not in without
        for each in _listed(context.params[parameter.name or ""])
    ]
    return [*written, *(["--", *positional] if positional else [])]


def _listed(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)
