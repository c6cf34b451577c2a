"""Telling commands from sentences, so that no prose ever reaches a shell.

Bash would run prose: `Run the script` is a command with two arguments, and what stands between back-ticks is executed.
The rules are few and fixed, so that a decision can be explained. A command of a shell text is

- a sentence where English function words (`the`, `you`, `to` ...) stand outside quotes before its first flag: two of
  them, or one after a program's name that is an English word too (`test the model`); or where it has three words and a
  full stop, colon, exclamation or question mark at its end; or where nothing that can be run stands at its head;
- unmistakable where an interpreter or launcher runs a script or a module, or the command is itself a script;
- a command where its head is a path, a shell keyword, a function of the text, a flag (of a command that was broken
  into lines), or one of the programs listed here, or where a `--flag` follows a name;
- unknown where its head might be a program that is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ml_bench_metric import shell

Reading = Literal["unmistakable", "command", "unknown", "sentence"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTION_WORDS = _words(
    """
    a an the this that these those it its is are was were be been being i we you your he she they me us them my our
    their to of on at by about into as with from for not no nor so than too and or but if can cannot could will would
    shall should may might must do does don doesn did has have had here there which who whom whose what when where why
    how please sorry need sure using following below above also only just because however unable
    """
)
_PYTHON_KEYWORDS = _words("as with from for is not and or if")
_PROSE_ONLY_WORDS = _FUNCTION_WORDS - _PYTHON_KEYWORDS
_SINGLE_LETTERS = frozenset("ai")
_OPENING = _words("if then elif else while until do ! { time")
_CLOSING = _words("fi done esac }")
_WRAPPERS = _words("sudo nohup env exec command timeout nice xvfb-run")
_INTERPRETER = re.compile(r"(?:.*/)?(?:(?:ipython|python|pypy)[\d.]*|bash|sh|zsh|dash)")
_LAUNCHERS = _words("torchrun accelerate deepspeed horovodrun mpirun srun")
_PROGRAMS = _words(
    """
    . : [ [[ alias apt apt-get awk basename cat cd chmod chown clear cmake conda cp curl cut declare df diff dirname
    docker du echo eval exit export ffmpeg find function gdown git grep gunzip gzip head huggingface-cli jupyter
    kaggle kill let ln local ls make mamba md5sum micromamba mkdir mktemp mv nvcc nvidia-smi paste pip pip3 pkill
    poetry popd printf ps pushd pwd pytest read readonly realpath rm rmdir rsync sed seq set sha256sum shift shopt
    sleep sort source ssh stat tail tar tee test touch tr trap true typeset ulimit umask uname uniq unset unzip uv
    virtualenv wait wc wget which xargs zip
    """
)
_SCRIPT = re.compile(r"[\w./~${}+-]+\.(?:py|sh|bash)")
_PATH = re.compile(r"(?:\.{1,2}/|/|~/|\$)[\w./~${}+-]*")
_FLAG = re.compile(r"--?[a-z][\w-]*(?:=.*)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.+-]*")
_OPTION_OF_WRAPPER = re.compile(r"-.*|\d.*|\w+=.*", re.DOTALL)
_PUNCTUATION = ",.:;!?()*\"'`"
_SENTENCE_END = re.compile(r"[^\W\d_]{2,}[)'\"`*]*[.:!?][)'\"`*]*")
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def reading(command: shell.Command, functions: frozenset[str] = frozenset()) -> Reading:
    """Return what a command of a shell text is; see the module.

    Args:
        command: a command of `shell.read`.
        functions: names that the text defines as functions.
    """
    return _reading(command.words[command.assignments :], functions)


def feeds_documents(script: shell.Script) -> bool:
    """Whether a command gets a here-document; `cat <<E | python` and its document may be valid Python as a whole."""
    runnable = ("unmistakable", "command")
    return any(command.documents and reading(command, script.functions) in runnable for command in script.commands)


def is_sentence(line: str) -> bool:
    """Whether a line of what should be Python is a sentence of prose; a comment is none."""
    if line.lstrip().startswith("#"):
        return False
    words = _IN_QUOTES.sub(" ", line).split()
    ends = len(words) > 2 and _SENTENCE_END.fullmatch(words[-1]) and not re.search(r"[=()\[\]{}]", line)
    return _count(words, _PROSE_ONLY_WORDS) > 1 or bool(ends and words[0][0].isupper())


def _reading(words: Sequence[shell.Word], functions: frozenset[str]) -> Reading:
    start = 0
    while start < len(words):
        text = words[start].text
        if text in _WRAPPERS:
            start += 1
            while start < len(words) and _OPTION_OF_WRAPPER.fullmatch(words[start].text):
                start += 1
        elif text in _OPENING and not words[start].quoted:
            start += 1
        else:
            return _reading_of_command(text, words[start + 1 :], functions)
    return "sentence" if words and words[0].text in _WRAPPERS else "command"


def _reading_of_command(head: str, arguments: Sequence[shell.Word], functions: frozenset[str]) -> Reading:
    if head in _CLOSING:
        return "command"
    if head in ("for", "select", "case"):
        return "command" if len(arguments) < 2 or arguments[1].text == "in" else "sentence"
    before_flags: list[str] = []
    for word in arguments:
        if len(word.text) > 1 and word.text.startswith("-"):
            break
        before_flags.append("" if word.quoted else word.text)
    prose_words = _count(before_flags, _FUNCTION_WORDS)
    says_text = head in ("echo", "printf")
    ends = len(arguments) > 1 and not arguments[-1].quoted and _SENTENCE_END.fullmatch(arguments[-1].text)
    if not says_text and (prose_words > 1 or ends):
        return "sentence"
    if _SCRIPT.fullmatch(head):
        return "unmistakable"
    if head in _LAUNCHERS or _INTERPRETER.fullmatch(head):
        verb = head in _LAUNCHERS and bool(arguments) and _NAME.fullmatch(arguments[0].text)  # `accelerate launch`
        return _reading_of_interpreter(arguments[1:] if verb else arguments, prose_words)
    if _FLAG.fullmatch(head):  # of a broken command, or of a list of options with what they mean
        return "sentence" if prose_words or sum(word.isalpha() for word in before_flags) > 2 else "command"
    if head in functions:
        return "command"
    if not says_text and prose_words > _count(before_flags, _SINGLE_LETTERS):
        return "sentence"
    if head in _PROGRAMS or _PATH.fullmatch(head):
        return "command"
    if not _NAME.fullmatch(head):
        return "sentence"
    tells_to_run = any(_INTERPRETER.fullmatch(word) for word in before_flags)  # `use python train.py --x 1`
    if head.islower() and not tells_to_run and any(word.text.startswith("--") for word in arguments):
        return "command"
    is_plain = head.islower() or any(re.search(r"^-|[./]", word.text) for word in arguments)
    return "unknown" if is_plain else "sentence"


def _reading_of_interpreter(arguments: Sequence[shell.Word], prose_words: int) -> Reading:
    """Return what `python`, `bash` or `torchrun` with these arguments is."""
    after_flag = False
    for argument in arguments:
        if _SCRIPT.fullmatch(argument.text) or argument.text in ("-m", "-c"):
            return "unmistakable"
        if argument.quoted or re.search(r"[./$]", argument.text):
            return "command"
        if not after_flag and not argument.text.startswith("-"):
            return "sentence" if prose_words else "unknown"
        after_flag = argument.text.startswith("-")
    return "command" if arguments else "unknown"


def _count(words: Sequence[str], among: frozenset[str]) -> int:
    """Return how many words are among some, contractions (`it's`, `you'll`) by what they start with."""
    plain = (re.split("['\u2019]", word.strip(_PUNCTUATION).lower(), maxsplit=1)[0] for word in words)
    return sum(word in among for word in plain)
