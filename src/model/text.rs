//! Text from outside on its way to a terminal.

/// The text without what a terminal would obey: a path, a mount's source or a record may hold line
/// breaks and escape sequences, and anybody can make one.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The text as one word of a command line, as sh(1) reads it.
pub fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_otherwise() {
        assert_eq!(shell("/dev/disk/by-id/a:b,c@1"), "/dev/disk/by-id/a:b,c@1");
        assert_eq!(shell("/mnt/a b"), "'/mnt/a b'");
        assert_eq!(shell("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(shell(""), "''");
    }

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        assert_eq!(plain("a\n\u{1b}[31m\u{9b}b\u{e9}"), "a  [31m b\u{e9}");
    }
}
