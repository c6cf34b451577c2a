// Looking for a value among the tokens of a program: the counterpart of `ml_bench_metric/checks/matching.py`, whose
// module docstring has the rules.
(function (mlBench) {
  "use strict";

  const { SPACE, ALNUM, words, strip, isAlnum, isAlpha, isDigit, isLower, isUpper, charBefore, charAt, escape } =
    mlBench.text;
  const WORD = `${ALNUM}_`;
  const SEPARATORS = new RegExp(`[${SPACE},;=|'"\`()\\[\\]{}<>]+|:(?!//)`, "u");
  const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?$/;
  const NUMBER_IN_NAME = /(?<![\d.])\d+(?:\.\d+)?(?!\d|\.\d)/g;
  const LONGEST_NUMBER = 100;
  const FLAG = /--?(?=[A-Za-z])/;
  const STARTS_WITH_FLAG = /^--?(?=[A-Za-z])/;
  const SHORT_FLAG = /^(-[A-Za-z])(\d+(?:\.\d*)?)$/;
  const FILE_NAME = new RegExp(`^[${WORD}.+\\-]*[${WORD}]\\.[A-Za-z][A-Za-z0-9]{0,4}$`, "u");
  const HERE = new RegExp(`(?<![^${SPACE}=:,'"(\\[])(?:\\./+)+(?=[^${SPACE}/])`, "gu");
  const SLASHES = /(?<!:)\/(?:\.?\/)+/g;
  const INFLECTION = new RegExp(`(?:s|es|ed|ing)(?![${ALNUM}])`, "iuy");
  const SENTENCE_END = /[.,;:!?]+$/;

  class Haystack {
    constructor(tokens) {
      const spellings = tokens.map(spelled);
      this.tokens = new Set(spellings);
      this.text = spellings.join("\n");
      this.items = spellings.flatMap(itemsOf);
      this.keys = this.items.map(key);
      this.numbers = new Set(this.keys.filter((found) => found.startsWith("n")));
      const names = this.items.filter((_, index) => this.keys[index].startsWith("t"));
      for (const name of names) {
        for (const [digits] of name.matchAll(NUMBER_IN_NAME)) {
          if (digits.length > 1 && number(digits) !== null) this.numbers.add(number(digits));
        }
      }
    }

    /** Whether a value (not empty) is among the tokens. */
    hasValue(value) {
      if (number(value) !== null) return this.numbers.has(number(value));
      const wanted = spelled(value);
      const items = itemsOf(wanted);
      if (items.length === 1 && STARTS_WITH_FLAG.test(wanted)) return this.keys.includes(key(items[0]));
      if (mlBench.text.length(wanted) === 1 || ![...wanted].some(isAlnum))
        return this.items.includes(wanted) || this.tokens.has(wanted);
      if ((value.includes("/") && items.length === 1) || FILE_NAME.test(wanted)) return this.hasPath(wanted);
      return this.hasText(wanted) || (items.length > 1 && this.hasSequence(items.map(key)));
    }

    /** Whether a flag or name is among the tokens. */
    hasName(name) {
      const wanted = plainName(name);
      return this.items.some((item) => plainName(item) === wanted);
    }

    hasPath(value) {
      return new RegExp(`(?<![${WORD}.\\-])${escape(value)}(?![${WORD}\\-]|\\.[${WORD}])`, "u").test(this.text);
    }

    hasText(value) {
      for (const match of this.text.matchAll(new RegExp(escape(value), "giu"))) {
        if (startsWord(this.text, match.index) && endsWord(this.text, match.index + match[0].length)) return true;
      }
      return false;
    }

    hasSequence(keys) {
      return this.keys.some((_, start) => keys.every((wanted, offset) => this.keys[start + offset] === wanted));
    }
  }

  function spelled(text) {
    const plain = words(text).join(" ").replace(HERE, "").replace(SLASHES, "/");
    return plain.includes(" ") ? plain : plain.replace(/\/+$/, "") || plain;
  }

  function itemsOf(text) {
    return text.split(SEPARATORS).flatMap((item) => {
      const glued = SHORT_FLAG.exec(item);
      if (glued !== null) return glued.slice(1);
      if (!item) return [];
      return [NUMBER.test(item) ? item : item.replace(SENTENCE_END, "") || item];
    });
  }

  /** What an item is compared by: "n" and its value where it is a number, else "t" and its lower-case spelling. */
  function key(item) {
    return number(item) ?? "t" + spelled(item).toLowerCase().replace(FLAG, "-");
  }

  /** The value of a number in one spelling, "n" before it; null for what is none. */
  function number(text) {
    if (text.length > LONGEST_NUMBER || !NUMBER.test(text)) return null;
    const [mantissa, exponent = "0"] = text.toLowerCase().split("e");
    const [whole, fraction = ""] = mantissa.replace(/^[+-]/, "").split(".");
    const digits = (whole + fraction).replace(/^0+/, "");
    const significant = digits.replace(/0+$/, "");
    if (!significant) return "n0";
    const power = Number(exponent) - fraction.length + digits.length - significant.length;
    return `n${text.startsWith("-") ? "-" : ""}${significant}e${power}`;
  }

  function plainName(name) {
    return strip(name)
      .toLowerCase()
      .replace(/^-+/, "")
      .replace(new RegExp(`[${SPACE}\\-]+`, "gu"), "_");
  }

  function startsWord(text, at) {
    const before = charBefore(text, at) || "\n";
    const after = charAt(text, at);
    if (before === "." && isDigit(after) && isDigit(charBefore(text, at - 1))) return false;
    if (!(isAlnum(before) && isAlnum(after))) return true;
    if (isDigit(before) !== isDigit(after)) return true;
    const following = charAt(text, at + after.length);
    return isUpper(after) && (isLower(before) || (isUpper(before) && isLower(following)));
  }

  function endsWord(text, at) {
    if (at === text.length) return true;
    const last = charBefore(text, at);
    if (text[at] === "." && isDigit(last) && isDigit(charAt(text, at + 1))) return false;
    if (!(isAlnum(last) && isAlnum(charAt(text, at)))) return true;
    INFLECTION.lastIndex = at;
    return startsWord(text, at) || (isAlpha(last) && INFLECTION.test(text));
  }

  mlBench.matching = { Haystack };
})((globalThis.mlBench ??= {}));
