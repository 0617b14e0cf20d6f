"""Errors as one line and an exit status."""

import signal

import click

from fleetcube import stop


def refusal(error: click.UsageError) -> str:
    """A refused usage in one line: what is wrong, and the next action."""
    from fleetcube.grid.errors import nearest

    context = error.ctx
    action = f"see `{context.command_path} --help`" if context else "see `fleetcube --help`"
    if isinstance(error, click.NoSuchOption) and context:
        options = [name for each in context.command.get_params(context) for name in each.opts]
        return f"no such option {error.option_name}; {nearest(error.option_name, options, action)}"
    return f"{' '.join(error.format_message().split()).rstrip('.')}; {action}"


def exit_status(error: BaseException) -> int:
    """The exit status of an error; for a stop, 128 plus the signal, as in shells."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    if isinstance(error, click.Abort | KeyboardInterrupt):
        stop_signal = error.__cause__ or error
        return 128 + (signal.SIGTERM if isinstance(stop_signal, stop.Terminated) else signal.SIGINT)
    return 2 if isinstance(error, InputError | CatalogError) else 1


def one_line(error: BaseException) -> str:
    """An error in one line."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    text = " ".join(str(error).split())
    if isinstance(error, click.Abort | KeyboardInterrupt):
        stop_signal = error.__cause__ if isinstance(error, click.Abort) else error
        return f"stopped; {str(stop_signal or '') or 'nothing was kept'}"
    if isinstance(error, MemoryError):
        return "out of memory; use fewer threads or float32"
    if isinstance(error, InputError | CatalogError | OSError):
        return text
    if "checksum" in text:
        return f"a chunk is damaged ({text[:100]}); `fleetcube verify CUBE` says which"
    return f"{type(error).__name__}: {text[:300]}; `fleetcube --debug ...` shows where"
