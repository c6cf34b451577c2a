"""Texts on which the Space's scripts and the package are compared: every construct, broken ones, mutations."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import ml_bench_sample
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import load_tasks


def mutated(texts: Sequence[str], pieces: Sequence[str], count: int, seed: int) -> list[str]:
    """Return texts with pieces put in, cut out and doubled; the same ones at every run."""
    dice = random.Random(seed)
    made = []
    for _ in range(count):
        text = dice.choice(texts)
        for _ in range(dice.choice([1, 1, 2])):
            at = dice.randrange(len(text) + 1)
            piece = dice.choice(["", "", *pieces, text[at : at + dice.randint(1, 15)]])
            text = text[:at] + piece + text[at + dice.choice([0, 0, 1, 4]) :]
        made.append(text)
    return made


PYTHON_TEXTS = r'''
x = 1_000 + 0x1F - .5e-3j ** -2  # comment
print("a" 'b' """c
d""", b"\x41\n", r"\d", u"\u00e9\101", f"{x!r:>{w}}{{}}{y=}", rb'\'')
def f(a, /, b: int = 1, *args: str, c=2, **kw) -> None: return a, *b
class A(B, metaclass=M): x: int = 3; y = [*a, *b]
with open("a") as f, (g) as (h, i): pass
with (a as b, c as d,): del x[0], y.z
async def f():
    async with a as b: await c; return [x async for x in y if z if w]
@a.b[c](d)
def g(): yield; x = yield from y; global q; nonlocal r
try: pass
except (A, B) as e: raise C from e
except: ...
else: assert x, "y"
finally: import a.b as c, d; from ...e import (f as g, h,); from . import *
match command.split():
    case ["go", ("north" | "south") as way, *rest] if rest: pass
    case {"k": -1 + 2j, **others} | Point(x=0, y=None): pass
    case a.b | _: pass
match = case = type = 1; match[x] = match(y); print(match)
lambda x, *y, z=1, **k: (x := 1, not y in z is not None)
x[1:2, ::3, ...] = {**a, 'b': c} if d else {e for e in f}; {1, *g}; (yield)
for i, (j, *k) in 1, 2: continue
else: break
while (n := 10) > 0: n -= 1; n @= 2; n //= 3
x = os.path.join("a", "b") + Path("c", 'd').name + "%s" % -5 + str(- -5)
if a: pass
elif b:
  pass
'''
BROKEN = r"""
x = ; f(a for a in b, c); f(**a, *b); f(a=1, b); (*a); x := 1; print "a"; 0777; 1__0; 0b12; 1abc; "a; 'b
f(a.b=1); None = 1; a + b = c; f() = 1; (a, b) += 1; [a, b]: int; del f(); for x() in y: pass; import a.b as c.d
from a import b,; from . import; def f(a=1, b): pass; def f(*): pass; def f(*, **k): pass; def f(a, /, b, /): pass
try: pass; with a as b(): pass; class: pass; lambda: yield; {**a for b in c}; {1: 2, 3}; x = *; a b; $x; x?; `ls`
b"é"; "a" b"b"; "\x4"; f"{"; f"}"; f"{}"; f"{x!z}"; (]; ((); \ x; elif x: pass; else: pass; return x y; not; a if b
case x: pass; match x:; async x; await; @a; raise x from; assert; global 1; except: pass; a.1; a..b; f(a)(; x[]; {a:}
"""


def python_texts() -> list[str]:
    broken = [part for line in BROKEN.split("\n") for part in line.split("; ")]
    lines = [
        *PYTHON_TEXTS.split("\n"),
        *broken,
        "if a:\n\tx\n        y",
        "if a:\n  x\n y",
        " x",
        "\\\n x",
        "if a:\\\n x",
        "x\\",
    ]
    blocks = ["\n".join(lines[start : start + 3]) for start in range(len(lines))]
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    modules = [text for path in library[::10] if len(text := path.read_text("utf-8")) < 40_000]
    sample = [task.output for task in load_tasks("sample", "L").tasks if task.language == "python"]
    assert len(modules) > 10
    pieces = [
        "(",
        ")",
        "[",
        "]}",
        ":",
        ",",
        "=",
        "*",
        "\n",
        "\n    ",
        " ",
        "\\\n",
        "'",
        '"""',
        "#",
        "if ",
        " in ",
        "1",
        ".",
    ]
    # Without f-strings: what may stand within one depends on the version of Python.
    seeds = [text for text in [*lines, *blocks, *sample] if 'f"' not in text]
    return [PYTHON_TEXTS, *lines, *blocks, *modules, *sample, *mutated(seeds, pieces, 600, seed=1)]


BASH_TEXTS = r"""
A=1 B="x $A" python -m a.b --x=$A -j2 'c d' "e\"f$(g h)" \
  --last # comment
for x in a b "c d"; do echo $x; done; for ((i=0; i<3; i++)); do a; done
for x; do a; done
while read -r line; do echo "$line"; done < <(cat x.txt) 2>&1 | tee out.log >/dev/null &
if [ -f a ] && ! [[ $b =~ (x|y) ]]; then c; elif (( d > 1 )); then { e; }; else (f; g); fi
case "$x" in a|b) c ;; (d) e ;; *) f; esac
function f { a; }; g() ( b ); h () { c; } > d; coproc i { j; }
declare -A a=([x]=1 [y]=2); b=(1 2 "3 4"); b+=(5); b[0]=6; export C=${b[0]:-7} D=${E:-"f g"}
cat <<EOF > a.py
print($A, "${B}")
EOF
python - <<'EOF'
import a.b; c("d e", f=1.50)
EOF
cat <<-X <<Y; bash -c "echo 'a b' \$C"; eval "x y"; python3 -c 'import os; print(os.path.join("a", "b"))'
	x
	X
y
Y
time -p sudo nohup env X=1 timeout 5 ./run.sh; . a.sh; : "doc string"; echo `date "+%s"` $((1 + (2))) $'a\'b\n' $"c"
Sure! Here is the command that you should run:
Use python train.py --lr 0.1 to train the model.
accelerate launch --num_processes 2 train.py; --batch-size 4; -x the size of the; ffmpeg -i a.mp4; mytool --go
"""
BROKEN_BASH = r"""
(; ); { a }; a(b); f() a; if a then b; fi; then; do; done; esac; }; a |; | a; a | ! b; && a; a ;;; ${a; $(a; `a; "a; 'a
echo (see the readme); a=b(c); cmd a=(1); a=(1 & 2); a <; a <<<; a >&; for x in a do b; done; for; case x a; case x in a
((1 + 2; [[ a; function; coproc; {a; }; if a; fi; while a; done; ! ; !a; time; a\; $((a); in x; >x if a; A=1 then
a[1 2=3
"""


BROKEN_COMPOUNDS = r"""
if a; then b; done | while a; do b; fi | case x in a) b;; fi | { a; ) | ( a; } | for x in a; do b; fi | if a; then; fi
if a; b; fi | f() { a; | select x in a; do b; } | if a; then b; else; fi | while a; do; done | until a; do b
for ((i=0)); do a; done | ((a)) b | if a; then b; fi c | if a; then b; elif c; fi | case x in a b) c;; esac | { a; } b
function f g; a | f() { a; }; } | a; ; b | a & ; b | (a) (b) | case x in ) a;; esac | for 1 in; do a; done
a() b | >x (a)
"""


def bash_lines() -> list[str]:
    broken = [part for line in BROKEN_BASH.split("\n") for part in line.split("; ")]
    compounds = [part for line in BROKEN_COMPOUNDS.split("\n") for part in line.split(" | ")]
    return [*BASH_TEXTS.split("\n"), *BASH_TEXTS.replace("\n", "; ").split("; "), *broken, *compounds]


def bash_texts() -> list[str]:
    lines = bash_lines()
    blocks = ["\n".join(lines[start : start + 4]) for start in range(0, len(lines), 2)]
    tasks = load_tasks("sample", "L")
    items = read_predictions(ml_bench_sample.predictions(), tasks).items
    answers = [text for prediction in items.values() for text in prediction.candidates]
    pieces = [
        "(",
        ")",
        "{ ",
        "; }",
        "'",
        '"',
        "`",
        "$(",
        "$",
        "|",
        "&&",
        ";",
        "<",
        ">",
        "<<E\n",
        "\n",
        "\\",
        "\\\n",
        " ",
        "#",
    ]
    pieces += [
        "if ",
        "; then ",
        "do ",
        "done",
        "case x in ",
        "esac",
        "the ",
        ". ",
        "--x",
        "=(",
        "=",
        "é😀",
        "!",
        "[[ ",
        "x",
    ]
    seeds = [*lines, *blocks, *answers]
    return [BASH_TEXTS, *seeds, *mutated(seeds, pieces, 800, seed=2)]
