//! Text from outside as plain text: what programs print to paint, to clear the screen, to set a title or to
//! write to the clipboard is taken out of it. It is nothing to a person who reads, and much to a terminal.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Whether a character does something to a terminal instead of being shown, or turns the direction of what
/// follows, so that it reads as something else. A new line and a tab are text.
pub fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && !matches!(c, '\n' | '\t')
}

/// The text without the sequences that a terminal obeys, and without other control characters. A return, as
/// programs print it to write over a line, ends the line.
pub fn text(text: &str) -> Cow<'_, str> {
    // Nearly always there is nothing to do, and the bytes tell: the control characters beyond ASCII begin with
    // these two.
    let is_plain = |byte: u8| byte >= b' ' && !matches!(byte, 0x7f | 0xc2 | 0xe2) || byte == b'\n';
    if text.bytes().all(is_plain) || !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip(&mut rest),
            // The same in one character.
            '\u{9b}' => skip_to_final(&mut rest),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_to_end(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            c if is_control(c) => {}
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// Passes over what follows an escape.
fn skip(rest: &mut Peekable<Chars>) {
    match rest.next() {
        Some('[') => skip_to_final(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_to_end(rest),
        // Intermediate characters, and the final one behind them.
        Some(' '..='/') => {
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
        _ => {}
    }
}

/// Passes over parameters, and the character that ends them.
fn skip_to_final(rest: &mut Peekable<Chars>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Passes over a text that ends with a bell or an escape of its own. One that does not end in its line is not
/// believed: else a byte would hide everything behind it.
fn skip_to_end(rest: &mut Peekable<Chars>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if(|c| *c == '\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_gone_and_the_rest_stays() {
        for (from, to) in [
            ("plain — text\n\tand tabs", "plain — text\n\tand tabs"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x\u{1b}]52;c;Zm9v\u{1b}\\y", "xy"),
            ("\u{1b}(Ba\u{1b}c\u{9b}2Jb\u{7f}\u{8}", "ab"),
            ("10%\r20%\r\nend", "10%\n20%\nend"),
            ("\u{1b}]0;never ends\nnext", "\nnext"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(text(from), to, "{from:?}");
        }
    }
}
