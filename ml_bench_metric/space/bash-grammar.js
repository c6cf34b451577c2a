// Whether a text follows the grammar of bash: an approximation of what `bash -n` (5.2) says, written after the grammar
// in the bash manual, chapters 3.1 and 3.2. Not looked into: what is within `((...))`, `[[...]]` and `${...}`.
(function (mlBench) {
  "use strict";

  const { BashError, REDIRECTIONS, RESERVED, Words } = mlBench.bashWords;
  const DEEPEST = 200;
  const CLOSING = new Set(["then", "elif", "else", "fi", "esac", "do", "done", "}"]);
  const NUMBER_OR_NAME = /^(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\})$/;

  class Grammar extends Words {
    /** Read the commands of the `(...)` that starts here. */
    substitution() {
      const inner = new Grammar(this.text);
      Object.assign(inner, { at: this.at + 1, depth: this.depth + 1 });
      if (inner.depth > DEEPEST) this.fail();
      inner.newlines();
      if (inner.token.value !== ")" || inner.token.isWord) inner.list();
      inner.expect(")");
      this.at = inner.at;
      this.documents.push(...inner.documents);
    }

    sees(...values) {
      return !this.token.isWord && values.includes(this.token.value);
    }

    /** Whether a reserved word stands here, at a place where it is one. */
    seesWord(...values) {
      return this.token.isWord && this.token.isPlain && values.includes(this.token.value);
    }

    expect(value) {
      if (!this.sees(value)) this.fail();
      this.take();
    }

    expectWord(value) {
      if (!this.seesWord(value)) this.fail();
      this.take();
    }

    newlines() {
      while (this.sees("\n")) this.take();
    }

    script() {
      this.newlines();
      while (!this.sees("")) {
        this.andOr();
        if (this.sees(";", "&")) this.take();
        else if (!this.sees("\n", "")) this.fail();
        this.newlines();
      }
    }

    /** Read commands up to a word or operator that closes something; one at least. */
    list() {
      this.newlines();
      do {
        this.andOr();
        if (this.sees(";", "&")) this.take();
        else if (!this.sees("\n")) return;
        this.newlines();
      } while (!this.sees(")", ";;", ";&", ";;&", "") && !this.seesWord(...CLOSING));
    }

    andOr() {
      this.pipeline();
      while (this.sees("&&", "||")) {
        this.take();
        this.newlines();
        this.pipeline();
      }
    }

    pipeline() {
      let hasPrefix = false;
      while (this.seesWord("!", "time")) {
        const isTime = this.take().value === "time";
        while (isTime && this.token.isWord && ["-p", "--"].includes(this.token.value)) this.take();
        hasPrefix = true;
      }
      if (hasPrefix && this.sees(";", "\n", "")) return;
      this.command();
      while (this.sees("|", "|&")) {
        this.take();
        this.newlines();
        if (this.seesWord("!")) this.fail();
        while (this.seesWord("time")) this.take();
        this.command();
      }
    }

    command() {
      this.depth += 1;
      if (this.depth > DEEPEST) this.fail();
      if (this.isCompound()) {
        this.compound();
        this.redirections();
      } else if (this.seesWord("function")) {
        this.functionDefinition();
      } else if (this.seesWord("coproc")) {
        this.take();
        this.coprocess();
      } else {
        this.simple();
      }
      this.depth -= 1;
    }

    isCompound() {
      return this.sees("(") || this.seesWord("if", "for", "select", "case", "while", "until", "{", "[[");
    }

    compound() {
      if (this.sees("(")) {
        this.at -= 1;
        if (this.text[this.at + 1] === "(" && this.arithmetic()) {
          this.take();
          return;
        }
        this.at += 1;
        this.take();
        this.list();
        this.expect(")");
        return;
      }
      const { value } = this.token;
      if (value === "[[") {
        this.condition();
        return;
      }
      this.take();
      if (value === "{") {
        this.list();
        this.expectWord("}");
      } else if (value === "if") {
        this.conditional();
      } else if (value === "case") {
        this.cases();
      } else if (value === "for" || value === "select") {
        this.loop(value);
      } else {
        this.list();
        this.doGroup();
      }
    }

    conditional() {
      do {
        this.list();
        this.expectWord("then");
        this.list();
      } while (this.seesWord("elif") && this.take());
      if (this.seesWord("else")) {
        this.take();
        this.list();
      }
      this.expectWord("fi");
    }

    doGroup() {
      this.expectWord("do");
      this.list();
      this.expectWord("done");
    }

    loop(keyword) {
      if (keyword === "for" && this.sees("(")) {
        const start = this.at;
        this.at -= 1;
        if (this.text[start] !== "(" || !this.arithmetic()) this.fail();
        if (this.text.slice(start, this.at).split(";").length !== 3) this.fail();
        this.take();
        if (this.sees(";")) this.take();
        this.newlines();
      } else {
        this.plainWord();
        const hasLines = this.sees("\n");
        this.newlines();
        if (this.seesWord("in")) {
          this.take();
          while (this.token.isWord) this.take();
          if (this.sees(";", "\n")) this.take();
          else this.fail();
          this.newlines();
        } else if (this.sees(";") && !hasLines) {
          this.take();
          this.newlines();
        }
      }
      if (this.seesWord("{")) this.compound();
      else this.doGroup();
    }

    plainWord() {
      if (!this.take().isWord) this.fail();
    }

    cases() {
      this.plainWord();
      this.newlines();
      this.expectWord("in");
      this.newlines();
      while (!this.seesWord("esac")) {
        if (this.sees("(")) this.take();
        this.plainWord();
        while (this.sees("|")) {
          this.take();
          this.plainWord();
        }
        this.expect(")");
        this.newlines();
        if (!this.sees(";;", ";&", ";;&") && !this.seesWord("esac")) this.list();
        if (this.sees(";;", ";&", ";;&")) this.take();
        else if (!this.seesWord("esac")) this.fail();
        this.newlines();
      }
      this.take();
    }

    /** Skip `[[ ... ]]`, whose `[[` stands at the current token. */
    condition() {
      for (let isEnd = false; !isEnd;) {
        while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
        const start = this.at;
        while (this.at < this.text.length && !/\s/.test(this.text[this.at])) this.piece(this.text[this.at]);
        if (start === this.at) this.fail();
        const word = this.text.slice(start, this.at).replace(/[;)&|]+$/, "");
        isEnd = word === "]]";
        if (isEnd) this.at = start + 2;
      }
      this.next = null;
    }

    functionDefinition() {
      this.take();
      this.plainWord();
      if (this.sees("(")) {
        this.take();
        if (this.sees(")")) this.take();
        else this.fail();
      }
      this.functionBody();
    }

    functionBody() {
      this.newlines();
      if (!this.isCompound()) this.fail();
      this.compound();
      this.redirections();
    }

    coprocess() {
      if (!this.isCompound()) {
        if (!this.token.isWord) this.fail();
        const first = this.take();
        if (!this.isCompound() || !first.isPlain) {
          this.rest();
          return;
        }
      }
      this.compound();
      this.redirections();
    }

    simple() {
      if (this.seesWord(...RESERVED)) this.fail();
      if (this.redirection()) {
        this.rest();
        return;
      }
      if (!this.token.isWord) this.fail();
      const first = this.take();
      if (this.sees("(") && !first.isAssignment) {
        this.take();
        this.expect(")");
        this.functionBody();
        return;
      }
      this.rest();
    }

    /** Read the words and redirections that are left of a simple command. */
    rest() {
      while (this.redirection() || this.token.isWord) {
        if (this.token.isWord && !this.seesDescriptor()) this.take();
      }
    }

    redirections() {
      while (this.redirection());
    }

    /** Whether the `2` of `2>file` stands here. */
    seesDescriptor() {
      const isBefore = "<>".includes(this.text[this.at] ?? "-") && !this.startsProcess();
      return this.token.isWord && isBefore && NUMBER_OR_NAME.test(this.token.value);
    }

    /** Read a redirection where one stands here. */
    redirection() {
      if (this.token.isWord) {
        if (!this.seesDescriptor()) return false;
        this.take();
      }
      if (this.token.isWord || !REDIRECTIONS.has(this.token.value)) return false;
      const operator = this.take().value;
      if (!this.token.isWord) this.fail();
      const target = this.take().value;
      if (operator === "<<" || operator === "<<-") {
        this.documents.push({ delimiter: target.replace(/\\(.)|['"]/gs, "$1"), stripTabs: operator === "<<-" });
      }
      return true;
    }
  }

  /** Whether a text is accepted; see above. */
  function accepts(text) {
    if (text.includes("\0")) return false;
    try {
      new Grammar(text).script();
      return true;
    } catch (error) {
      if (error instanceof BashError || error instanceof RangeError) return false;
      throw error;
    }
  }

  mlBench.bashGrammar = { accepts };
})((globalThis.mlBench ??= {}));
