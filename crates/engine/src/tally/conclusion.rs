//! The normal form in which conclusions are compared. The comparison is exact: two conclusions that are wrongly taken
//! for equal would end a run without a vote.

/// The normal form: lower case, single spaces, no final period, and `-` as the minus sign. A number has no thousands
/// separators, no plus sign and no trailing zeros after the decimal point, and at least one digit before the decimal
/// point. None if nothing is left.
pub fn same_form(conclusion: &str) -> Option<String> {
    let text = conclusion.to_lowercase().replace('\u{2212}', "-");
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    let joined = words.join(" ");
    let joined = joined.strip_suffix('.').unwrap_or(&joined).trim_end();
    (!joined.is_empty()).then(|| joined.to_owned())
}

fn word(text: &str) -> String {
    // A period, comma or semicolon after a number belongs to the sentence.
    let number = text.trim_end_matches(['.', ',', ';']);
    match plain_number(number) {
        Some(plain) => plain + text.get(number.len()..).unwrap_or_default(),
        None => text.to_owned(),
    }
}

fn plain_number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(decimals) || (whole.is_empty() && decimals.is_empty()) {
        return None;
    }
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let rest: Vec<&str> = groups.collect();
    let grouped = rest.is_empty() || (1..=3).contains(&first.len());
    if !is_digits(first) || !grouped || !rest.iter().all(|group| group.len() == 3 && is_digits(group)) {
        return None;
    }
    let whole = format!("{first}{}", rest.concat());
    let whole = if whole.is_empty() { "0" } else { &whole };
    let decimals = decimals.trim_end_matches('0');
    let plain = if decimals.is_empty() { whole.to_owned() } else { format!("{whole}.{decimals}") };
    let is_zero = plain.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    Some(if is_zero { plain } else { format!("{sign}{plain}") })
}

#[cfg(test)]
mod tests {
    use super::same_form;

    #[test]
    fn conclusions_are_equal_up_to_case_spaces_and_the_way_numbers_are_written() {
        for (one, other) in [
            ("Paris", " paris "),
            ("Paris.", "Paris"),
            ("New  York\n City", "new york city"),
            ("1,000,000", "1000000"),
            ("1,234.50", "1234.5"),
            ("+4", "4.0"),
            ("4.", "4"),
            (".5", "0.50"),
            ("-0.0", "0"),
            ("\u{2212}3", "-3"),
            ("x = 1,000.", "X  =  1000"),
        ] {
            assert_eq!(same_form(one), same_form(other), "{one:?} and {other:?}");
        }
    }

    #[test]
    fn nothing_else_is_equal() {
        for (one, other) in [
            ("4", "5"),
            ("4", "-4"),
            ("007", "7"),
            ("1,23", "123"),
            ("12,34,567", "1234567"),
            ("1000,000", "1000000"),
            ("4 km", "4km"),
            ("yes", "yes, probably"),
            ("1.2.3", "1.23"),
            ("a.b", "ab"),
            ("Paris!", "Paris"),
            ("4%", "4"),
        ] {
            assert_ne!(same_form(one), same_form(other), "{one:?} and {other:?}");
        }
        for empty in ["", "  ", ".", "\n"] {
            assert_eq!(same_form(empty), None, "{empty:?}");
        }
    }
}
