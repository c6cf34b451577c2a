// The words and operators of a bash text, for bash-grammar.js.
(function (mlBench) {
  "use strict";

  class BashError extends Error {}

  const OPERATOR = /&>>|<<<|<<-|;;&|&&|\|\||;;|;&|<<|>>|<&|>&|<>|>\||\|&|&>|[;&|<>()]/y;
  const REDIRECTIONS = new Set(["<", ">", "<<", ">>", "<<-", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>"]);
  const RESERVED = new Set(
    "if then elif else fi case esac for select while until do done in function time { } ! [[ coproc".split(" "),
  );
  const ASSIGNMENT = /^[A-Za-z_][A-Za-z0-9_]*(?:\[[^]*\])?\+?=$/;
  const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
  /** Commands whose arguments may be arrays: `declare a=(1 2)`. */
  const DECLARING = new Set("alias declare typeset local export readonly eval let".split(" "));

  /** Reads words. A subclass says how the commands of a substitution are read. */
  class Words {
    constructor(text) {
      this.text = text;
      this.at = 0;
      this.documents = [];
      this.depth = 0;
      this.next = null;
      /** `head` where a command may start, `arguments` behind its name, `declaring` behind one of `DECLARING`. */
      this.position = "head";
      this.inArray = false;
    }

    fail() {
      throw new BashError();
    }

    /** Return the next token {value, isWord, isPlain} without taking it; "\n" ends a line, "" the text. */
    get token() {
      this.next ??= this.readToken();
      return this.next;
    }

    take() {
      const { token } = this;
      this.next = null;
      if (!token.isWord) {
        if (!REDIRECTIONS.has(token.value)) this.position = "head";
      } else if (this.position === "head" && !token.isAssignment && !(token.isPlain && RESERVED.has(token.value))) {
        this.position = DECLARING.has(token.value) ? "declaring" : "arguments";
      }
      return token;
    }

    get mayAssign() {
      return this.position !== "arguments" && !this.inArray;
    }

    readToken() {
      for (;;) {
        if (this.text.startsWith("\\\n", this.at)) this.at += 2;
        else if (" \t".includes(this.text[this.at] ?? "-")) this.at += 1;
        else break;
      }
      const char = this.text[this.at];
      if (char === undefined || this.text.slice(this.at) === "\\") return { value: "", isWord: false };
      if (char === "#") {
        const end = this.text.indexOf("\n", this.at);
        this.at = end < 0 ? this.text.length : end;
        return this.readToken();
      }
      if (char === "\n") {
        this.at += 1;
        this.skipDocuments();
        return { value: "\n", isWord: false };
      }
      OPERATOR.lastIndex = this.at;
      const operator = OPERATOR.exec(this.text);
      if (operator !== null && !this.startsProcess()) {
        this.at += operator[0].length;
        return { value: operator[0], isWord: false };
      }
      return this.readWord();
    }

    startsProcess() {
      return this.text.startsWith("<(", this.at) || this.text.startsWith(">(", this.at);
    }

    readWord() {
      const start = this.at;
      let isPlain = true;
      let isArray = false;
      while (this.at < this.text.length) {
        const char = this.text[this.at];
        const follows = (pattern) => this.mayAssign && pattern.test(this.text.slice(start, this.at));
        if (char === "(" && !isArray && follows(ASSIGNMENT)) {
          this.at += 1;
          this.array();
          isArray = true;
        } else if (char === "[" && follows(NAME)) {
          this.at += 1;
          this.upTo("]", "[");
        } else if (this.startsProcess()) {
          this.at += 1;
          this.substitution();
        } else if (" \t\n;&|<>()".includes(char)) {
          break;
        } else {
          isPlain &&= !"\\'\"`$".includes(char) || this.text.startsWith("\\\n", this.at);
          this.piece(char);
        }
      }
      const value = this.text.slice(start, this.at).replaceAll("\\\n", "");
      return { value, isWord: true, isPlain, isAssignment: isArray || ASSIGNMENT.test(value.replace(/=[^]*/, "=")) };
    }

    /** Read one character, or all that it opens: a quotation, an expansion. */
    piece(char) {
      const { text } = this;
      this.at += 1;
      if (char === "\\") this.at += this.at < text.length ? 1 : 0;
      else if (char === "'") this.past("'");
      else if (char === '"') this.doubleQuoted();
      else if (char === "`") this.upTo("`");
      else if (char === "$") this.dollar(true);
    }

    past(end) {
      const found = this.text.indexOf(end, this.at);
      if (found < 0) this.fail();
      this.at = found + end.length;
    }

    dollar(isOutside) {
      const char = this.text[this.at];
      if (char === "'" && isOutside) {
        this.at += 1;
        this.upTo("'");
      } else if (this.text.startsWith("((", this.at) && this.arithmetic()) {
        return;
      } else if (char === "(") {
        this.substitution();
      } else if (char === "{" || char === "[") {
        this.at += 1;
        this.upTo(char === "{" ? "}" : "]", char === "{" ? "" : char);
      }
    }

    doubleQuoted() {
      while (this.text[this.at] !== '"') {
        const char = this.text[this.at];
        if (char === undefined) this.fail();
        this.at += 1;
        if (char === "\\") this.at += 1;
        else if (char === "`") this.upTo("`");
        else if (char === "$") this.dollar(false);
      }
      this.at += 1;
    }

    /** Read up to and with a closing character; `opening` nests. Quotations within count, but not within back-ticks. */
    upTo(closing, opening = "") {
      let open = 1;
      while (open) {
        const char = this.text[this.at];
        if (char === undefined) this.fail();
        if (char === closing || char === opening) {
          this.at += 1;
          open += char === closing ? -1 : 1;
        } else if (char === "\\") {
          this.at += 2;
        } else if (closing === "`" || closing === "'") {
          this.at += 1;
        } else {
          this.piece(char);
        }
      }
    }

    /** Read `((...))` where it starts here and ends with two brackets side by side; else stay. */
    arithmetic() {
      const start = this.at;
      this.at += 1;
      this.upTo(")", "(");
      if (this.text[this.at - 2] === ")") return true;
      this.at = start;
      return false;
    }

    array() {
      this.inArray = true;
      for (let { value, isWord } = this.readToken(); isWord || value !== ")"; { value, isWord } = this.readToken()) {
        if (!isWord && value !== "\n") this.fail();
      }
      this.inArray = false;
    }

    skipDocuments() {
      for (const { delimiter, stripTabs } of this.documents.splice(0)) {
        for (;;) {
          if (this.at >= this.text.length) break;
          const end = this.text.indexOf("\n", this.at);
          const line = this.text.slice(this.at, end < 0 ? this.text.length : end);
          this.at = end < 0 ? this.text.length : end + 1;
          if ((stripTabs ? line.replace(/^\t+/, "") : line) === delimiter) break;
        }
      }
    }
  }

  mlBench.bashWords = { BashError, REDIRECTIONS, RESERVED, Words };
})((globalThis.mlBench ??= {}));
