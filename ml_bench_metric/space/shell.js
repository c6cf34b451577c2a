// Reading bash text without running it: the counterpart of `ml_bench_metric/shell.py`, whose comments hold here too.
(function (mlBench) {
  "use strict";

  const DEEPEST = 40;
  const EXPANDED = 1000000;
  const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
  const ASSIGNMENT = /([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?(\+?)=/y;
  const ORDINARY = /[^\\'"$`;&|<>() \t\n]+/y;
  const IN_DOUBLE_QUOTES = /[^\\"$`]+/y;
  const FUNCTION = /\([ \t]*\)/y;
  const REDIRECTION = /<<<|<<-|<<|<>|[<>]&(?:\p{Nd}+-?|-)?|>>|>\||<|>/uy;
  const PARAMETER = /^([A-Za-z_][A-Za-z0-9_]*)(?::?-(.*))?$/s;
  const IN_DOCUMENT = /\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})/g;
  const BACKTICKS = /`((?:[^`\\]|\\.)*)`/sy;
  const ANSI_C = /'((?:[^'\\]|\\.)*)'/sy;
  const ANSI_C_ESCAPE = /\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([abefnrtv\\'"?]))/g;
  const ANSI_C_LETTERS = { a: "\x07", b: "\b", e: "\x1b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };
  const BEFORE_ARITHMETIC = new Set(["if", "then", "elif", "else", "while", "until", "do", "for", "{", "!"]);
  const DECLARING = new Set(["export", "declare", "typeset", "local", "readonly"]);

  function matchAt(pattern, text, at) {
    pattern.lastIndex = at;
    return pattern.exec(text);
  }

  /**
   * Return {commands, functions, complete} of a bash text. A command is {words, assignments, documents}, a word
   * {text, quoted}. `variables` (a Map) are those of its environment.
   */
  function read(text, variables = new Map()) {
    const scanner = new Scanner(text, new Variables(variables), 0);
    scanner.script(false);
    return { commands: scanner.commands, functions: scanner.functions, complete: scanner.complete };
  }

  class Variables {
    constructor(values) {
      this.values = new Map(values);
      this.left = EXPANDED;
    }

    value(name, otherwise) {
      const value = this.values.get(name) ?? otherwise;
      const length = mlBench.text.length(value);
      if (length > this.left) return "";
      this.left -= length;
      return value;
    }

    assign(words) {
      for (const { text } of words) {
        const match = matchAt(ASSIGNMENT, text, 0);
        if (match === null) continue;
        const before = match[2] ? this.value(match[1], "") : "";
        this.values.set(match[1], before + text.slice(match[0].length));
      }
    }
  }

  class Scanner {
    constructor(text, variables, level) {
      this.commands = [];
      this.functions = new Set();
      this.complete = true;
      this.text = text;
      this.at = 0;
      this.level = level;
      this.variables = variables;
      this.pending = [];
      this.fresh();
    }

    fresh() {
      this.words = [];
      this.assignments = 0;
      this.documents = [];
      this.inArray = false;
      this.openCases = 0;
    }

    starts(...beginnings) {
      return beginnings.some((beginning) => this.text.startsWith(beginning, this.at));
    }

    script(closing) {
      const { text } = this;
      let openGroups = 0;
      while (this.at < text.length) {
        const char = text[this.at];
        if (char === "\n") {
          if (!this.inArray) this.endCommand();
          this.at += 1;
          this.readDocuments();
        } else if (this.starts("\\\n")) {
          this.at += 2;
        } else if (char === " " || char === "\t" || this.starts("&>")) {
          this.at += 1;
        } else if (char === "#") {
          this.skipLine();
        } else if (";&|".includes(char)) {
          this.endCommand();
          this.at += 1;
        } else if (char === "(") {
          openGroups += this.openGroup();
        } else if (char === ")") {
          this.at += 1;
          if (this.inArray) {
            this.inArray = false;
            continue;
          }
          if (this.openCases && !openGroups) {
            this.words = [];
            this.assignments = 0;
            continue;
          }
          this.endCommand();
          if (this.openCases && !openGroups) continue;
          if (closing && !openGroups) return;
          this.complete &&= openGroups > 0;
          openGroups = Math.max(0, openGroups - 1);
        } else if (char === "<" || char === ">") {
          this.redirection();
        } else {
          this.word();
        }
      }
      if (openGroups || closing || this.inArray) this.complete = false;
      this.endCommand();
    }

    skipLine() {
      const end = this.text.indexOf("\n", this.at);
      this.at = end < 0 ? this.text.length : end;
    }

    giveUp() {
      this.complete = false;
      this.at = this.text.length;
    }

    endCommand() {
      if (this.words.length) {
        const { words, assignments, documents } = this;
        const head = words[0].text;
        this.openCases = Math.max(0, this.openCases + (head === "case") - (head === "esac"));
        this.variables.assign(DECLARING.has(head) ? words : words.slice(0, assignments));
        this.commands.push({ words, assignments, documents });
      }
      this.words = [];
      this.assignments = 0;
      this.documents = [];
      this.inArray = false;
    }

    openGroup() {
      if (this.starts("((") && (!this.words.length || BEFORE_ARITHMETIC.has(this.words.at(-1).text))) {
        this.arithmetic();
        return 0;
      }
      const definition = matchAt(FUNCTION, this.text, this.at);
      if (definition !== null && this.words.length) {
        this.functions.add(this.words.at(-1).text);
        this.words = [];
        this.assignments = 0;
        this.at += definition[0].length;
        return 0;
      }
      this.endCommand();
      this.at += 1;
      return 1;
    }

    redirection() {
      const [operator] = matchAt(REDIRECTION, this.text, this.at);
      this.at += operator.length;
      if ((operator === "<" || operator === ">") && this.starts("(")) {
        this.substitution();
      } else if (operator === "<<" || operator === "<<-") {
        while (this.starts(" ", "\t")) this.at += 1;
        const count = this.words.length;
        this.word();
        if (this.words.length > count) {
          this.pending.push({ delimiter: this.words.pop(), stripTabs: operator === "<<-", documents: this.documents });
        }
      }
    }

    readDocuments() {
      for (const { delimiter, stripTabs, documents } of this.pending) {
        const lines = [];
        while (this.at < this.text.length) {
          const start = this.at;
          this.skipLine();
          let line = this.text.slice(start, this.at);
          if (stripTabs) line = line.replace(/^\t+/, "");
          this.at += 1;
          if (line === delimiter.text) break;
          lines.push(line);
        }
        let body = lines.join("\n");
        if (!delimiter.quoted)
          body = body.replace(IN_DOCUMENT, (whole, plain, braced) => this.variables.value(plain ?? braced, whole));
        documents.push(body);
      }
      this.pending = [];
    }

    word() {
      const { text } = this;
      const start = this.at;
      const assigns = matchAt(ASSIGNMENT, text, start);
      let parts = [""];
      let quoted = false;
      let substituted = false;
      while (this.at < text.length) {
        const char = text[this.at];
        if (char === "(" && assigns !== null && start + assigns[0].length === this.at) {
          this.inArray = true;
          this.at += 1;
          break;
        }
        if (" \t\n;&|<>()".includes(char)) break;
        if (char === "\\") {
          const escaped = mlBench.text.charAt(text, this.at + 1);
          if (escaped !== "\n") {
            parts.push(escaped || "\\");
            quoted = true;
          }
          this.at += 1 + (escaped.length || 1);
        } else if (char === "'" || char === '"' || this.starts("$'", '$"')) {
          parts.push(this.quotation());
          quoted = true;
        } else if (char === "$") {
          substituted ||= this.starts("$(");
          const value = this.dollar();
          if (assigns !== null && this.takesAssignments()) {
            parts.push(value);
          } else {
            const [first, ...rest] = value.split(/[ \t\n]+/);
            parts.push(first);
            for (const piece of rest) {
              this.finish(parts, quoted);
              parts = [piece];
            }
          }
        } else if (char === "`") {
          substituted = true;
          this.backticks();
        } else {
          const [ordinary] = matchAt(ORDINARY, text, this.at);
          parts.push(ordinary);
          this.at += ordinary.length;
        }
      }
      const isDescriptor = "<>".includes(text[this.at] ?? " ") && /^\p{Nd}+$/u.test(text.slice(start, this.at));
      if (!isDescriptor) this.finish(parts, quoted || substituted);
    }

    takesAssignments() {
      return this.assignments === this.words.length || DECLARING.has(this.words[0].text);
    }

    finish(parts, quoted) {
      const text = parts.join("");
      if (!text && !quoted) return;
      if (this.assignments === this.words.length && matchAt(ASSIGNMENT, text, 0) !== null) this.assignments += 1;
      this.words.push({ text, quoted });
    }

    quotation() {
      if (this.text[this.at] === '"' || this.starts('$"')) {
        this.at = this.text.indexOf('"', this.at) + 1;
        return this.doubleQuoted();
      }
      const ansi = this.text[this.at] === "$" ? matchAt(ANSI_C, this.text, this.at + 1) : null;
      if (ansi !== null) {
        this.at += 1 + ansi[0].length;
        return ansi[1].replace(ANSI_C_ESCAPE, (_, hex, unicode, letter) => {
          const code = hex ?? unicode;
          return code !== undefined ? String.fromCharCode(parseInt(code, 16)) : (ANSI_C_LETTERS[letter] ?? letter);
        });
      }
      const start = this.text.indexOf("'", this.at) + 1;
      const end = this.text.indexOf("'", start);
      if (end < 0) {
        this.giveUp();
        return this.text.slice(start);
      }
      this.at = end + 1;
      return this.text.slice(start, end);
    }

    doubleQuoted() {
      const { text } = this;
      const parts = [];
      while (this.at < text.length) {
        const char = text[this.at];
        if (char === '"') {
          this.at += 1;
          return parts.join("");
        }
        if (char === "\\") {
          const following = mlBench.text.charAt(text, this.at + 1);
          if (following !== "\n") parts.push('$`"\\'.includes(following) ? following : "\\" + following);
          this.at += 1 + (following.length || 1);
        } else if (char === "$") {
          parts.push(this.dollar());
        } else if (char === "`") {
          this.backticks();
        } else {
          const [literal] = matchAt(IN_DOUBLE_QUOTES, text, this.at);
          parts.push(literal);
          this.at += literal.length;
        }
      }
      this.complete = false;
      return parts.join("");
    }

    dollar() {
      const start = this.at;
      this.at += 1;
      if (this.starts("((")) {
        this.arithmetic();
        return this.text.slice(start, this.at);
      }
      if (this.starts("(")) {
        this.substitution();
        return "";
      }
      if (this.starts("{")) return this.braces(start);
      const name = matchAt(NAME, this.text, this.at);
      if (name === null) return "$";
      this.at += name[0].length;
      return this.variables.value(name[0], this.text.slice(start, this.at));
    }

    braces(start) {
      const end = this.partner("{", "}", 1);
      if (end === null) {
        this.giveUp();
        return this.text.slice(start);
      }
      this.at = end;
      const whole = this.text.slice(start, end);
      const match = PARAMETER.exec(whole.slice(2, -1));
      return match === null ? whole : this.variables.value(match[1], match[2] ?? whole);
    }

    arithmetic() {
      const end = this.partner("(", ")", 2);
      this.complete &&= end !== null;
      this.at = end ?? this.text.length;
    }

    /** Where some opening brackets that start here are closed, null for nowhere. */
    partner(opening, closing, depth) {
      let end = this.at + depth;
      while (depth && end < this.text.length) {
        depth += (this.text[end] === opening) - (this.text[end] === closing);
        end += 1;
      }
      return depth ? null : end;
    }

    substitution() {
      if (this.level >= DEEPEST) {
        this.giveUp();
        return;
      }
      const { words, assignments, documents, inArray, openCases } = this;
      this.fresh();
      this.level += 1;
      this.at += 1;
      this.script(true);
      this.level -= 1;
      Object.assign(this, { words, assignments, documents, inArray, openCases });
    }

    backticks() {
      const match = matchAt(BACKTICKS, this.text, this.at);
      if (match === null || this.level >= DEEPEST) {
        this.giveUp();
        return;
      }
      this.at += match[0].length;
      const inner = new Scanner(match[1].replace(/\\([`\\$])/g, "$1"), this.variables, this.level + 1);
      inner.script(false);
      this.commands.push(...inner.commands);
      inner.functions.forEach((name) => this.functions.add(name));
      this.complete &&= inner.complete;
    }
  }

  mlBench.shell = { read };
})((globalThis.mlBench ??= {}));
