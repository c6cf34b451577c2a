// The tokens of a Python program, as Python 3.12 and newer make them. Errors are thrown as `PythonError`.
(function (mlBench) {
  "use strict";

  class PythonError extends Error {}

  const KEYWORDS = new Set(
    (
      "False None True and as assert async await break class continue def del elif else except finally for from global " +
      "if import in is lambda nonlocal not or pass raise return try while with yield"
    ).split(" "),
  );
  const NAME = /[_\p{XID_Start}][\p{XID_Continue}]*/uy;
  const PREFIX = /(?:[bB][rR]?|[rR][bBfF]?|[fF][rR]?|[uU])?(?='|")/y;
  const NUMBER =
    /0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|(?:(?:\d(?:_?\d)*)?\.\d(?:_?\d)*|\d(?:_?\d)*\.?)(?:[eE][+-]?\d(?:_?\d)*)?[jJ]?/y;
  const AFTER_NUMBER = /(?!and|else|for|if|in|is|not|or)[_\p{XID_Start}\d]/uy;
  const OPERATOR =
    /\*\*=|\/\/=|>>=|<<=|\.\.\.|\*\*|\/\/|>>|<<|<=|>=|==|!=|->|\+=|-=|\*=|\/=|%=|&=|\|=|\^=|@=|:=|[-+*/%@&|^~<>()[\]{},:.;=]/y;
  const PARTNER = { ")": "(", "]": "[", "}": "{" };
  const MOST_DIGITS = 4300;
  const MOST_BRACKETS = 200;
  const MOST_INDENTATIONS = 100;

  /**
   * Return the tokens of a program: {type, value}, type one of NAME, KEYWORD, NUMBER, STRING, OP, NEWLINE, INDENT,
   * DEDENT, END. The value of a NUMBER is a constant, that of a STRING {isBytes, isFormatted, parts}, see `readString`.
   */
  function tokens(program) {
    const lexer = new Lexer(program.replace(/\r\n?/g, "\n"));
    lexer.program();
    return lexer.tokens;
  }

  class Lexer {
    constructor(text) {
      if (text.includes("\0")) throw new PythonError("a NUL character");
      if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text)) {
        throw new PythonError("half a surrogate pair");
      }
      this.text = text.endsWith("\n") ? text : text + "\n";
      this.at = 0;
      this.tokens = [];
      this.brackets = [];
      this.indentations = [{ column: 0, alternative: 0 }];
    }

    push(type, value) {
      this.tokens.push({ type, value });
    }

    matched(pattern) {
      pattern.lastIndex = this.at;
      const match = pattern.exec(this.text);
      return match === null ? null : match[0];
    }

    program() {
      while (this.at < this.text.length) {
        if (this.indentation()) this.line();
      }
      if (this.brackets.length) throw new PythonError(`'${this.brackets.at(-1)}' was never closed`);
      while (this.indentations.length > 1) {
        this.indentations.pop();
        this.push("DEDENT", "");
      }
      this.push("END", "");
    }

    /** Read the white space that starts a line; return whether a statement follows on it. */
    indentation() {
      let column = 0;
      let alternative = 0;
      let beforeBackslash = 0;
      for (; ; this.at += 1) {
        const char = this.text[this.at];
        if (char === " ") {
          column += 1;
          alternative += 1;
        } else if (char === "\t") {
          column = (Math.floor(column / 8) + 1) * 8;
          alternative += 1;
        } else if (char === "\f") {
          column = alternative = 0;
        } else if (char === "\\" && this.text[this.at + 1] === "\n") {
          this.at += 1;
          if (this.at + 1 >= this.text.length) throw new PythonError("the program ends after a backslash");
          beforeBackslash ||= column;
        } else {
          break;
        }
      }
      if (beforeBackslash) column = alternative = beforeBackslash;
      if (this.text[this.at] === "#") this.comment();
      if (this.text[this.at] === "\n") {
        this.at += 1;
        return false;
      }
      const top = () => this.indentations.at(-1);
      if (column === top().column) {
        if (alternative !== top().alternative) throw new PythonError("tabs and blanks are mixed");
      } else if (column > top().column) {
        if (alternative <= top().alternative) throw new PythonError("tabs and blanks are mixed");
        if (this.indentations.length >= MOST_INDENTATIONS) throw new PythonError("too many levels of indentation");
        this.indentations.push({ column, alternative });
        this.push("INDENT", "");
      } else {
        while (column < top().column) {
          this.indentations.pop();
          this.push("DEDENT", "");
        }
        if (column !== top().column) throw new PythonError("the indentation matches no outer one");
        if (alternative !== top().alternative) throw new PythonError("tabs and blanks are mixed");
      }
      return true;
    }

    comment() {
      this.at = this.text.indexOf("\n", this.at);
    }

    /** Read the tokens of a logical line. */
    line() {
      while (this.at < this.text.length) {
        if (this.text[this.at] === "\n") {
          this.at += 1;
          if (!this.brackets.length) {
            this.push("NEWLINE", "");
            return;
          }
        } else {
          this.token();
        }
      }
    }

    /** Read one token, or white space, a comment or a continuation, which are none. */
    token() {
      const char = this.text[this.at];
      if (char === " " || char === "\t" || char === "\f") {
        this.at += 1;
        return;
      }
      if (char === "#") {
        this.comment();
        return;
      }
      if (char === "\\") {
        if (this.text[this.at + 1] !== "\n") throw new PythonError("something follows a backslash");
        this.at += 2;
        if (this.at >= this.text.length) throw new PythonError("the program ends after a backslash");
        return;
      }
      const prefix = this.matched(PREFIX);
      if (prefix !== null) {
        this.at += prefix.length;
        this.push("STRING", mlBench.pythonStrings.readString(this, prefix.toLowerCase()));
        return;
      }
      if (/[0-9]/.test(char) || (char === "." && /[0-9]/.test(this.text[this.at + 1]))) {
        this.number();
        return;
      }
      const name = this.matched(NAME);
      if (name !== null) {
        this.at += name.length;
        const normal = name.normalize("NFKC");
        this.push(KEYWORDS.has(name) ? "KEYWORD" : "NAME", normal);
        return;
      }
      this.operator();
    }

    number() {
      const spelling = this.matched(NUMBER);
      if (spelling === null) throw new PythonError("a broken number");
      this.at += spelling.length;
      if (this.matched(AFTER_NUMBER) !== null) throw new PythonError("a broken number");
      this.push("NUMBER", constantOf(spelling.replaceAll("_", "").toLowerCase()));
    }

    operator() {
      const operator = this.matched(OPERATOR);
      if (operator === null) throw new PythonError(`'${mlBench.text.charAt(this.text, this.at)}' means nothing here`);
      if ("([{".includes(operator)) {
        if (this.brackets.length >= MOST_BRACKETS) throw new PythonError("too many nested brackets");
        this.brackets.push(operator);
      } else if (operator in PARTNER && this.brackets.pop() !== PARTNER[operator]) {
        throw new PythonError(`'${operator}' has no partner`);
      }
      this.at += operator.length;
      this.push("OP", operator);
    }
  }

  /** The constant {type, text} of a number; the text is that of Python's `str`. */
  function constantOf(spelling) {
    if (/^0[xob]/.test(spelling)) return { type: "int", text: BigInt(spelling).toString() };
    if (spelling.endsWith("j")) {
      return { type: "complex", text: mlBench.text.floatText(Number(spelling.slice(0, -1))).replace(/\.0$/, "") + "j" };
    }
    if (/[.e]/.test(spelling)) return { type: "float", text: mlBench.text.floatText(Number(spelling)) };
    if (/^0+[1-9]/.test(spelling)) throw new PythonError("a decimal number with leading zeros");
    if (spelling.length > MOST_DIGITS) throw new PythonError("a number of too many digits");
    return { type: "int", text: BigInt(spelling).toString() };
  }

  mlBench.pythonLexer = { PythonError, tokens };
})((globalThis.mlBench ??= {}));
