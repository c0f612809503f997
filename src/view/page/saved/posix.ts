// SPDX-License-Identifier: Apache-2.0
// POSIX extended regular expressions, as the program's filters read them (regcomp of the GNU C library in
// the C locale), in JavaScript. Text is matched byte by byte there, so here both the expression and the text
// are strings of the bytes of their UTF-8. An expression that JavaScript cannot match alike is refused.

/** The expression is wrong, or cannot be matched here; the message says where and why. */
export class WrongPattern extends Error {}

const CLASSES: Record<string, string> = {
  alpha: "A-Za-z",
  digit: "0-9",
  alnum: "A-Za-z0-9",
  upper: "A-Z",
  lower: "a-z",
  space: " \\t-\\r",
  blank: " \\t",
  punct: "!-/:-@\\[-`{-~",
  print: " -~",
  graph: "!-~",
  cntrl: "\\x00-\\x1f\\x7f",
  xdigit: "0-9A-Fa-f",
};
/** What a backslash and a letter mean beyond the letter itself. */
const ESCAPES: Record<string, string> = { w: "[A-Za-z0-9_]", W: "[^A-Za-z0-9_]", s: "[ \\t-\\r]", S: "[^ \\t-\\r]" };
const ANCHORS: Record<string, string> = { b: "\\b", B: "\\B", "<": "\\b(?=\\w)", ">": "\\b(?<=\\w)", "`": "^", "'": "$" };
const REPEATS_MAX = 32767;

/** Return text as a string of the bytes of its UTF-8. */
export function bytesOfText(text: string): string {
  if (/^[\x00-\x7f]*$/.test(text)) return text;
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

const literally = (byte: string) => byte.replace(/[\\^$.|?*+()[\]{}/-]/, "\\$&");

class Translator {
  private at = 0;
  private open = 0;

  constructor(private text: string) {}

  private fail(reason: string): never {
    throw new WrongPattern(`character ${this.at + 1}: ${reason}`);
  }

  /** Take the name between "[:" and ":]" and return its class. */
  private takeClass(): string {
    const end = this.text.indexOf(":]", this.at + 2);
    const found = end < 0 ? undefined : CLASSES[this.text.slice(this.at + 2, end)];
    if (found === undefined) this.fail("there is no such class of characters");
    this.at = end + 2;
    return found;
  }

  /** Take a character between brackets, in which a backslash means itself. */
  private takeMember(): string {
    const start = this.text.slice(this.at, this.at + 2);
    if (start === "[." || start === "[=") this.fail("collating symbols are not supported in this page");
    return this.text[this.at++]!;
  }

  private takeBrackets(): string {
    let out = "[";
    this.at++;
    if (this.text[this.at] === "^") {
      out += "^";
      this.at++;
    }
    for (let first = true; first || this.text[this.at] !== "]"; first = false) {
      if (this.at >= this.text.length) this.fail("a [ has no ]");
      if (this.text.startsWith("[:", this.at)) {
        out += this.takeClass();
        continue;
      }
      const from = this.takeMember();
      const isRange = this.text[this.at] === "-" && this.text[this.at + 1] !== "]" && this.at + 1 < this.text.length;
      if (!isRange) {
        out += literally(from);
        continue;
      }
      this.at++;
      if (this.text.startsWith("[:", this.at)) this.fail("a range ends with a class");
      const to = this.takeMember();
      if (to < from) this.fail("a range ends before it begins");
      out += `${literally(from)}-${literally(to)}`;
    }
    this.at++;
    return `${out}]`;
  }

  private takeBackslash(): { text: string; isAnchor: boolean } {
    const next = this.text[this.at + 1];
    if (next === undefined) this.fail("a backslash is at the end");
    if (next >= "1" && next <= "9") this.fail("references to groups are not supported in this page");
    this.at += 2;
    const anchor = ANCHORS[next];
    return anchor !== undefined ? { text: anchor, isAnchor: true } : { text: ESCAPES[next] ?? literally(next), isAnchor: false };
  }

  /** Take what may follow an atom: *, +, ?, {2,5}. A repetition may be repeated. */
  private takeRepeats(atom: string): string {
    let out = atom;
    for (let count = 0; ; count++) {
      const one = this.text[this.at];
      let repeat: string;
      if (one === "*" || one === "+" || one === "?") {
        repeat = one;
        this.at++;
      } else if (one === "{") {
        const found = /^\{(?:(\d+)(,(\d*))?|,(\d+))\}/.exec(this.text.slice(this.at));
        const least = Number(found?.[1] ?? 0);
        const most = found?.[3] || found?.[4];
        if (!found || least > REPEATS_MAX || (most && (Number(most) > REPEATS_MAX || Number(most) < least))) this.fail("a repetition in braces is wrong");
        repeat = found[1] === undefined ? `{0,${found[4]!}}` : found[0];
        this.at += found[0].length;
      } else {
        return out;
      }
      out = (count > 0 ? `(?:${out})` : out) + repeat;
    }
  }

  private takeAtom(): string {
    const one = this.text[this.at]!;
    if (one === "*" || one === "+" || one === "?" || one === "{") this.fail(`there is nothing before the ${one} that could be repeated`);
    if (one === "^" || one === "$") {
      this.at++;
      return one;
    }
    if (one === "\\") {
      const { text, isAnchor } = this.takeBackslash();
      return isAnchor ? text : this.takeRepeats(text);
    }
    if (one === "[") return this.takeRepeats(this.takeBrackets());
    if (one === "(") {
      this.at++;
      this.open++;
      const inside = this.takeAlternatives();
      if (this.text[this.at] !== ")") this.fail("a ( has no )");
      this.at++;
      this.open--;
      return this.takeRepeats(`(?:${inside})`);
    }
    this.at++;
    return this.takeRepeats(one === "." ? "." : literally(one));
  }

  /** Take alternatives up to the end, or to the parenthesis that closes them. Outside of all, one is a character. */
  private takeAlternatives(): string {
    let out = "";
    while (this.at < this.text.length && !(this.text[this.at] === ")" && this.open > 0)) {
      if (this.text[this.at] === "|") {
        out += "|";
        this.at++;
      } else {
        out += this.takeAtom();
      }
    }
    return out;
  }

  translate(): RegExp {
    return new RegExp(this.takeAlternatives(), "s");
  }
}

/** Return a test of texts by an expression. */
export function matcherOfPattern(pattern: string): (text: string) => boolean {
  if (pattern === "") throw new WrongPattern("the pattern is empty, which matches every frame");
  const expression = new Translator(bytesOfText(pattern)).translate();
  return (text) => expression.test(bytesOfText(text));
}
