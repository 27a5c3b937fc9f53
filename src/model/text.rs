//! Text from outside on its way to a terminal.

/// The text without what a terminal would obey: a path, a mount's source or a record may hold line
/// breaks and escape sequences, and anybody can make one.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        assert_eq!(plain("a\n\u{1b}[31m\u{9b}b\u{e9}"), "a  [31m b\u{e9}");
    }
}
