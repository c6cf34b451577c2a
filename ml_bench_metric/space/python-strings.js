// String literals of Python: escapes, bytes, f-strings (by the grammar of Python 3.12 and newer).
(function (mlBench) {
  "use strict";

  const ESCAPE =
    /\\(?:\n|([\\'"abfnrtv])|([0-7]{1,3})|x([0-9a-fA-F]{2})|(x)|N\{([^}\n]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([NuU]))/g;
  const LETTERS = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };
  /** Fields within format specifications of fields. */
  const DEEPEST = 2;

  /**
   * Read the string whose quote is at the lexer's place; return {isBytes, isFormatted, parts}. A part is a text, or a
   * field of an f-string {tokens, spec}, `spec` being null or a list of parts.
   */
  function readString(lexer, prefix) {
    const quote = lexer.text.startsWith(lexer.text[lexer.at].repeat(3), lexer.at)
      ? lexer.text[lexer.at].repeat(3)
      : lexer.text[lexer.at];
    lexer.at += quote.length;
    const isRaw = prefix.includes("r");
    const isBytes = prefix.includes("b");
    if (prefix.includes("f")) {
      return { isBytes: false, isFormatted: true, parts: formattedParts(lexer, quote, isRaw, false, 0) };
    }
    const start = lexer.at;
    while (!lexer.text.startsWith(quote, lexer.at)) {
      step(lexer, quote);
    }
    const inner = lexer.text.slice(start, lexer.at);
    lexer.at += quote.length;
    if (isBytes && /[^\0-\x7f]/.test(inner)) throw new mlBench.pythonLexer.PythonError("bytes beyond ASCII");
    return { isBytes, isFormatted: false, parts: [isRaw ? inner : unescape(inner, isBytes)] };
  }

  /** Go one character further in a string, an escaped one with its backslash. */
  function step(lexer, quote) {
    const char = lexer.text[lexer.at];
    if (char === undefined || (char === "\n" && quote.length === 1)) {
      throw new mlBench.pythonLexer.PythonError("a string without an end");
    }
    lexer.at += char === "\\" ? 2 : 1;
    if (lexer.at > lexer.text.length) throw new mlBench.pythonLexer.PythonError("a string without an end");
  }

  function unescape(text, isBytes) {
    return text.replace(ESCAPE, (whole, letter, octal, hex, broken, name, short, long, other) => {
      if (letter !== undefined) return LETTERS[letter] ?? letter;
      if (octal !== undefined) return String.fromCharCode(isBytes ? parseInt(octal, 8) & 0xff : parseInt(octal, 8));
      if (hex !== undefined) return String.fromCharCode(parseInt(hex, 16));
      if (isBytes && whole !== "\\\n" && broken === undefined) return whole;
      // A browser knows no names of characters: one is taken for any other.
      if (name !== undefined) return "\ufffd";
      const code = short ?? long;
      if (code !== undefined && parseInt(code, 16) <= 0x10ffff) return String.fromCodePoint(parseInt(code, 16));
      if (broken !== undefined || other !== undefined || code !== undefined) {
        throw new mlBench.pythonLexer.PythonError("a broken escape in a string");
      }
      return "";
    });
  }

  /** Read an f-string up to its quote, or a format specification up to its `}`. */
  function formattedParts(lexer, quote, isRaw, isSpec, depth) {
    if (depth > DEEPEST) throw new mlBench.pythonLexer.PythonError("f-strings nested too deeply");
    const parts = [];
    let text = "";
    const cut = () => {
      if (text) parts.push(isRaw ? text : unescape(text, false));
      text = "";
    };
    for (;;) {
      const char = lexer.text[lexer.at];
      if (isSpec ? char === "}" : lexer.text.startsWith(quote, lexer.at)) break;
      if (isSpec && lexer.text.startsWith(quote, lexer.at)) {
        throw new mlBench.pythonLexer.PythonError("an f-string ends within a field");
      }
      const isDouble = !isSpec && (char === "{" || char === "}") && lexer.text[lexer.at + 1] === char;
      if (isDouble) {
        text += char;
        lexer.at += 2;
      } else if (char === "{") {
        cut();
        parts.push(...field(lexer, quote, isRaw, depth));
      } else if (char === "}") {
        throw new mlBench.pythonLexer.PythonError("a single } in an f-string");
      } else {
        const start = lexer.at;
        const name = isRaw || char !== "\\" ? null : /\\N\{[^}\n]*\}/y;
        if (name !== null) name.lastIndex = start;
        const named = name === null ? null : name.exec(lexer.text);
        if (named !== null) lexer.at += named[0].length;
        else if (char === "\\" && "{}".includes(lexer.text[start + 1] ?? "-")) lexer.at += 1;
        else step(lexer, quote);
        text += lexer.text.slice(start, lexer.at);
      }
    }
    cut();
    lexer.at += isSpec ? 0 : quote.length;
    return parts;
  }

  /** Read the field whose `{` is at the lexer's place; return its parts: the text of `{x=}`, and the field. */
  function field(lexer, quote, isRaw, depth) {
    lexer.at += 1;
    const start = lexer.at;
    const outer = { tokens: lexer.tokens, brackets: lexer.brackets };
    lexer.tokens = [];
    lexer.brackets = [];
    let ends = null;
    while (ends === null) {
      ends = lexer.brackets.length ? null : endOfExpression(lexer);
      if (ends !== null) break;
      const char = lexer.text[lexer.at];
      if (char === undefined) throw new mlBench.pythonLexer.PythonError("a field without an end");
      if (char === "\n") lexer.at += 1;
      else lexer.token();
    }
    const { tokens } = lexer;
    tokens.push({ type: "END", value: "" });
    Object.assign(lexer, outer);
    const parts = [];
    const skip = () => {
      while (/[ \t\n\f]/.test(lexer.text[lexer.at] ?? "")) lexer.at += 1;
    };
    if (ends === "=") {
      lexer.at += 1;
      skip();
      parts.push(lexer.text.slice(start, lexer.at));
    }
    if (lexer.text[lexer.at] === "!") {
      if (!/[rsa]/.test(lexer.text[lexer.at + 1])) throw new mlBench.pythonLexer.PythonError("an unknown conversion");
      lexer.at += 2;
      skip();
    }
    let spec = null;
    if (lexer.text[lexer.at] === ":") {
      lexer.at += 1;
      spec = formattedParts(lexer, quote, isRaw, true, depth + 1);
    }
    if (lexer.text[lexer.at] !== "}") throw new mlBench.pythonLexer.PythonError("a field without an end");
    lexer.at += 1;
    parts.push({ tokens, spec });
    return parts;
  }

  /** What ends the expression of a field at the lexer's place, null for nothing. */
  function endOfExpression(lexer) {
    const char = lexer.text[lexer.at];
    const next = lexer.text[lexer.at + 1];
    if (char === "}" || char === ":") return char;
    if (char === "!" && next !== "=") return char;
    return char === "=" && next !== "=" ? char : null;
  }

  mlBench.pythonStrings = { readString };
})((globalThis.mlBench ??= {}));
