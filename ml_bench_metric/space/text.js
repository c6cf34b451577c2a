// Python's notions of text, where JavaScript's differ: white space, letters and digits, the spelling of numbers.
// Every script of this folder adds its part to the one global `mlBench`: modules do not load from file:// pages.
(function (mlBench) {
  "use strict";

  /** White space of `str.isspace` and `\s`, for use within [...] of a regular expression with the flag u. */
  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  /** Letters and digits of `str.isalnum`, for use within [...] too; `\w` adds the underscore. */
  const ALNUM = "\\p{L}\\p{N}";

  const STRIP = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu");
  const WORDS = new RegExp(`[^${SPACE}]+`, "gu");
  const IS_ALNUM = new RegExp(`^[${ALNUM}]$`, "u");
  // Digits that are no decimals: superscripts, circled digits and the like.
  const OTHER_DIGITS =
    "\\u00b2\\u00b3\\u00b9\\u1369-\\u1371\\u19da\\u2070\\u2074-\\u2079\\u2080-\\u2089\\u2460-\\u2468\\u2474-\\u247c" +
    "\\u2488-\\u2490\\u24ea\\u24f5-\\u24fd\\u24ff\\u2776-\\u277e\\u2780-\\u2788\\u278a-\\u2792\\u{10a40}-\\u{10a43}" +
    "\\u{10e60}-\\u{10e68}\\u{11052}-\\u{1105a}\\u{1f100}-\\u{1f10a}";
  const IS_DIGIT = new RegExp(`^[\\p{Nd}${OTHER_DIGITS}]$`, "u");

  const strip = (text) => text.replace(STRIP, "");
  const words = (text) => text.match(WORDS) ?? [];
  const isAlnum = (char) => IS_ALNUM.test(char);
  const isAlpha = (char) => /^\p{L}$/u.test(char);
  const isDigit = (char) => IS_DIGIT.test(char);
  const isLower = (char) => /^\p{Lowercase}$/u.test(char);
  const isUpper = (char) => /^\p{Uppercase}$/u.test(char);

  /** The character before a place of a text, "" at its start; a pair of surrogates is one. */
  function charBefore(text, at) {
    const low = text.charCodeAt(at - 1);
    return at > 1 && low >= 0xdc00 && low <= 0xdfff
      ? String.fromCodePoint(text.codePointAt(at - 2))
      : text.slice(Math.max(0, at - 1), at);
  }

  /** The character at a place of a text, "" at its end. */
  function charAt(text, at) {
    return at < text.length ? String.fromCodePoint(text.codePointAt(at)) : "";
  }

  /** Number of characters, as Python counts them. */
  function length(text) {
    let count = text.length;
    for (let at = 0; at + 1 < text.length; at += 1) {
      if (text.codePointAt(at) > 0xffff) {
        count -= 1;
        at += 1;
      }
    }
    return count;
  }

  /** `repr` of a Python float. */
  function floatText(value) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (Object.is(value, -0)) return "-0.0";
    const [mantissa, exponentText] = value.toExponential().split("e");
    const exponent = Number(exponentText);
    if (exponent < -4 || exponent >= 16) {
      return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    }
    const digits = mantissa.replace(/[-.]/g, "");
    const sign = value < 0 ? "-" : "";
    if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
    const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
    return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
  }

  /** A text as a regular expression with the flag u that matches it alone. */
  const escape = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

  mlBench.text = {
    SPACE,
    ALNUM,
    strip,
    words,
    isAlnum,
    isAlpha,
    isDigit,
    isLower,
    isUpper,
    charBefore,
    charAt,
    length,
    floatText,
    escape,
  };
})((globalThis.mlBench ??= {}));
