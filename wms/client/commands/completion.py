"""The command that prints the completion of a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ..catalogue import ALIASES, ENTRIES, actions_below, parser_of
from ..counts import EVERY_STATUS
from .command import Command, CommandOutput, CommandSession

_BASH = """\
_wms() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" option="${{COMP_WORDS[COMP_CWORD-1]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case "$command" in
{cases}
    esac
}}
complete -o default -F _wms wms
"""
_BASH_CASE = """\
        {names}) case "$option $word" in{values}
            *\\ -*) COMPREPLY=($(compgen -W "{options}" -- "$word")) ;;
            *) COMPREPLY=({words}) ;;
            esac ;;"""
_BASH_VALUES = """
            {option}\\ *) COMPREPLY=($(compgen -W "{values}" -- "$word")) ;;"""
_ZSH = """\
#compdef wms
_wms() {{
    if (( CURRENT == 2 )); then
        local -a commands=({commands})
        _describe command commands
        return
    fi
    case "$words[2]" in
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
            elif (( $#words_of )); then _describe word words_of
            else _files; fi ;;"""


_ZSH_VALUES = '[[ "$words[CURRENT-1]" == {option} ]]; then compadd -- {values}; elif '
#: {destination of an option: its values}; several commands have options of the same name.
VALUES = {
    "filter_status": tuple(EVERY_STATUS.split(",")),
    "status": ("Submitted", "Waiting", "Running", "Stalled", "Lost", "Done", "Failed", "Aborted"),
}


def _configure(parser: ArgumentParser) -> None:
    about = "shell; for bash: source <(wms completion bash)"
    parser.add_argument("shell", choices=tuple(_WRITERS), metavar="bash|zsh|fish", help=about)


def _completion(options: Namespace, session: CommandSession) -> CommandOutput:
    text = _WRITERS[options.shell]()
    session.console.write(text)
    return CommandOutput({"shell": options.shell, "completion": text}, [])


def _options_of(parser: ArgumentParser) -> Mapping[str, str]:
    """Return {long option: help}, those of actions included."""
    found = {}
    for each in (parser, *actions_below(parser)):
        for action in each._actions:  # noqa: SLF001 - argparse has no public way
            for name in action.option_strings:
                if name.startswith("--"):
                    found[name] = (action.help or "").replace("%%", "%")
    return found


def _words_of(parser: ArgumentParser) -> list[str]:
    """Return the actions of a command, or the choices of its argument."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way
        if action.choices and not action.option_strings:
            return list(action.choices)
    return []


def _values_of(parser: ArgumentParser) -> Mapping[str, str]:
    """Return {long option: its values, with blanks between}, of the options whose values are known."""
    known = [action for action in parser._actions if action.dest in VALUES]  # noqa: SLF001 - argparse has no public way
    return {name: " ".join(VALUES[action.dest]) for action in known for name in action.option_strings}


def _names_of(name: str) -> list[str]:
    return [name, *(alias for alias, meant in ALIASES.items() if meant == name)]


def _bash() -> str:
    cases = []
    for name in ENTRIES:
        parser = parser_of(name)
        words = _words_of(parser)
        words_text = f'$(compgen -W "{" ".join(words)}" -- "$word")' if words else ""
        options = " ".join(_options_of(parser))
        values = "".join(_BASH_VALUES.format(option=option, values=text) for option, text in _values_of(parser).items())
        names = "|".join(_names_of(name))
        cases.append(_BASH_CASE.format(names=names, options=options, words=words_text, values=values))
    return _BASH.format(commands=" ".join([*ENTRIES, *ALIASES]), cases="\n".join(cases))


def _zsh() -> str:
    cases = []
    for name in ENTRIES:
        parser = parser_of(name)
        options = " ".join(_quoted(f"{option}:{_escaped(about)}") for option, about in _options_of(parser).items())
        words = " ".join(_words_of(parser))
        values = "".join(_ZSH_VALUES.format(option=option, values=text) for option, text in _values_of(parser).items())
        names = "|".join(_names_of(name))
        cases.append(_ZSH_CASE.format(names=names, options=options, words=words, values=values))
    commands = " ".join(_quoted(f"{name}:{_escaped(entry.summary)}") for name, entry in ENTRIES.items())
    return _ZSH.format(commands=commands, cases="\n".join(cases))


def _fish() -> str:
    lines = ["complete -c wms -n __fish_use_subcommand -f"]
    for name, entry in ENTRIES.items():
        lines.append(f"complete -c wms -n __fish_use_subcommand -f -a {name} -d {_quoted(entry.summary)}")
        parser = parser_of(name)
        seen = f"'__fish_seen_subcommand_from {' '.join(_names_of(name))}'"
        if words := _words_of(parser):
            lines.append(f"complete -c wms -n {seen} -f -a {_quoted(' '.join(words))}")
        lines += [
            f"complete -c wms -n {seen} -l {option[2:]} -d {_quoted(about)}"
            for option, about in _options_of(parser).items()
        ]
        lines += [
            f"complete -c wms -n {seen} -l {option[2:]} -x -a {_quoted(values)}"
            for option, values in _values_of(parser).items()
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text in single quotes, for any of the shells."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"


def _escaped(text: str) -> str:
    """Return a text without colons, which zsh takes for the end of a word."""
    return text.replace(":", " -")


_WRITERS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
COMMANDS = {"completion": Command(_configure, _completion)}
