"""The command that prints the completion of a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..catalogue import ALIASES, ENTRIES, actions_below, parser_of
from ..statuses import EVERY_STATUS
from .command import Command, CommandOutput, CommandSession

_BASH = """\
_wms() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" option="${{COMP_WORDS[COMP_CWORD-1]}}" action=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    [ "$COMP_CWORD" -gt 2 ] && action="${{COMP_WORDS[2]}}"
    case "$command $action" in
{cases}
    esac
}}
complete -o default -F _wms wms
"""
_BASH_CASE = """\
        {names}) case "$option $word" in{values}
            *\\ -*) COMPREPLY=($(compgen -W "{options}" -- "$word")) ;;
            *) [ "$COMP_CWORD" -eq {place} ] && COMPREPLY=({words}) ;;
            esac ;;"""
_BASH_VALUES = """
            {option}\\ *) COMPREPLY=($(compgen -W "{values}" -- "$word")) ;;"""
_ZSH = """\
#compdef wms
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
_wms() {{
    if (( CURRENT == 2 )); then
        local -a commands=({commands})
        _describe command commands
        return
    fi
    local action=
    (( CURRENT > 3 )) && action="$words[3]"
    case "$words[2] $action" in
{cases}
    esac
}}
if [ "$funcstack[1]" = "_wms" ]; then _wms "$@"; else compdef _wms wms; fi
"""
_ZSH_CASE = """\
        {names})
            local -a options=({options})
            local -a words_of=({words})
            if {values}[[ "$words[CURRENT]" == -* ]]; then _describe option options
            elif (( CURRENT == {place} + 1 && $#words_of )); then _describe word words_of
            else _files; fi ;;"""


_FISH = """\
function __wms_command
    set -l words (commandline -opc)
    contains -- "$words[2]" $argv
end
function __wms_action
    set -l words (commandline -opc)
    test (count $words) -gt 2; and contains -- "$words[2] $words[3]" $argv
end
function __wms_first
    test (count (commandline -opc)) -eq $argv
end
complete -c wms -n '__wms_first 1' -f
"""

_ZSH_VALUES = '[[ "$words[CURRENT-1]" == {option} ]]; then compadd -- {values}; elif '
#: {destination of an option: its values}; several commands have options of the same name.
VALUES = {
    "filter_status": tuple(EVERY_STATUS.split(",")),
    "status": ("Submitted", "Waiting", "Running", "Stalled", "Lost", "Done", "Failed", "Aborted"),
    "by": ("group", "user", "site", "type", "month", "country"),
}


def _configure(parser: ArgumentParser) -> None:
    about = "shell; bash and zsh: source <(wms completion bash); fish: wms completion fish | source"
    parser.add_argument("shell", choices=tuple(_WRITERS), metavar="bash|zsh|fish", help=about)


def _completion(options: Namespace, session: CommandSession) -> CommandOutput:
    text = _WRITERS[options.shell]()
    session.console.write(text)
    return CommandOutput({"shell": options.shell, "completion": text}, [])


def _options_of(parser: ArgumentParser) -> Mapping[str, str]:
    """Return {long option: help}."""
    return {
        name: (action.help or "").replace("%%", "%")
        for action in parser._actions  # noqa: SLF001 - argparse has no public way
        for name in action.option_strings
        if name.startswith("--")
    }


def _words_of(parser: ArgumentParser) -> list[str]:
    """Return the actions of a command, or the choices of its argument."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way
        if action.choices and not action.option_strings:
            return list(action.choices)
    return []


def _values_of(parser: ArgumentParser) -> Mapping[str, str]:
    """Return {long option: its values, with blanks between}, of the options whose values are known."""
    known = [(action, VALUES.get(action.dest) or action.choices or ()) for action in parser._actions]  # noqa: SLF001 - argparse has no public way
    return {name: " ".join(map(str, values)) for action, values in known if values for name in action.option_strings}


def _flags_of(parser: ArgumentParser) -> frozenset[str]:
    """Return the long options that may be given without a value."""
    flags = [action for action in parser._actions if action.nargs in (0, "?")]  # noqa: SLF001 - as above
    return frozenset(name for action in flags for name in action.option_strings)


def _summaries() -> Iterator[tuple[str, str]]:
    """Yield (name, summary) of each command, by its other names too."""
    for name, entry in ENTRIES.items():
        for each in _names_of(name):
            yield each, entry.summary


def _names_of(name: str) -> list[str]:
    return [name, *(alias for alias, meant in ALIASES.items() if meant == name)]


#: Words before the first argument of a command.
_OF_COMMAND = 2


class _Level(NamedTuple):
    """What may follow a command, or an action of it."""

    #: Of the command, or of command and action.
    names: list[str]
    parser: ArgumentParser
    #: Number of words before its own first argument.
    place: int


def _levels() -> Iterator[_Level]:
    """Yield the actions of each command, and after them the command."""
    for name in ENTRIES:
        parser, names = parser_of(name), _names_of(name)
        for below in actions_below(parser):
            action = below.prog.rpartition(" ")[2]
            yield _Level([f"{each} {action}" for each in names], below, _OF_COMMAND + 1)
        yield _Level(names, parser, _OF_COMMAND)


def _patterns_of(level: _Level) -> str:
    """Return the patterns of bash and zsh for "COMMAND ACTION"; the action is not typed yet, or none."""
    names = (name.replace(" ", "\\ ") for name in level.names)
    return "|".join(name if level.place > _OF_COMMAND else f"{name}\\ *" for name in names)


def _bash() -> str:
    cases = []
    for level in _levels():
        words = _words_of(level.parser)
        words_text = f'$(compgen -W "{" ".join(words)}" -- "$word")' if words else ""
        values = _values_of(level.parser).items()
        cases.append(
            _BASH_CASE.format(
                names=_patterns_of(level),
                options=" ".join(_options_of(level.parser)),
                words=words_text,
                values="".join(_BASH_VALUES.format(option=option, values=text) for option, text in values),
                place=level.place,
            )
        )
    return _BASH.format(commands=" ".join([*ENTRIES, *ALIASES]), cases="\n".join(cases))


def _zsh() -> str:
    cases = []
    for level in _levels():
        options = _options_of(level.parser).items()
        values = _values_of(level.parser).items()
        cases.append(
            _ZSH_CASE.format(
                names=_patterns_of(level),
                options=" ".join(_quoted(f"{option}:{_escaped(about)}") for option, about in options),
                words=" ".join(_words_of(level.parser)),
                values="".join(_ZSH_VALUES.format(option=option, values=text) for option, text in values),
                place=level.place,
            )
        )
    commands = " ".join(_quoted(f"{name}:{_escaped(summary)}") for name, summary in _summaries())
    return _ZSH.format(commands=commands, cases="\n".join(cases))


def _fish() -> str:
    lines = [f"complete -c wms -n '__wms_first 1' -f -a {name} -d {_quoted(summary)}" for name, summary in _summaries()]
    for level in _levels():
        function = "__wms_command" if level.place == _OF_COMMAND else "__wms_action"
        used = " ".join([function, *(f'"{name}"' for name in level.names)])
        if words := _words_of(level.parser):
            first = f"{used}; and __wms_first {level.place}"
            lines.append(f"complete -c wms -n '{first}' -f -a {_quoted(' '.join(words))}")
        values, flags = _values_of(level.parser), _flags_of(level.parser)
        for option, about in _options_of(level.parser).items():
            value = f" -x -a {_quoted(values[option])}" if option in values else "" if option in flags else " -r"
            lines.append(f"complete -c wms -n '{used}' -l {option[2:]} -d {_quoted(about)}{value}")
    return _FISH + "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text in single quotes, for any of the shells."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"


def _escaped(text: str) -> str:
    """Return a text without colons, which zsh takes for the end of a word."""
    return text.replace(":", " -")


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
COMMANDS = {"completion": Command(_configure, _completion)}
