//! `.env` files.

use althing_config::{dotenv_assignments, parse_dotenv};

fn pairs(text: &str) -> Vec<(String, String)> {
    parse_dotenv(text)
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_are_found_under_any_name_but_only_names_of_variables_are_used() {
    let text = "# A_TOKEN=none\nMY KEY=a\nteam/token='b'\n1PASSWORD_TOKEN=c\nü_TOKEN=\"d\ne\"\nB_TOKEN=f\n=g\nA+KEY=\"h\nC=i\n";
    let all = [
        ("MY KEY", "a"),
        ("team/token", "b"),
        ("1PASSWORD_TOKEN", "c"),
        ("ü_TOKEN", "d\ne"),
        ("B_TOKEN", "f"),
        ("A+KEY", "\"h"),
        ("C", "i"),
    ];
    assert_eq!(dotenv_assignments(text), owned(&all));
    assert_eq!(parse_dotenv(text), owned(&[("B_TOKEN", "f"), ("C", "i")]));
}

#[test]
fn names_and_values_are_read_with_export_quotes_and_comments() {
    let text = "\
# a comment
PLAIN=value
  SPACED = some words   # and a comment
export EXPORTED=yes
DOUBLE=\"a # b \\\"c\\\" \\n d\"
SINGLE='a # b \\n'
EMPTY=
HASH=a#b
URL=https://host/?a=b&c=d

MULTI=\"first
second\"
AFTER=1
";
    assert_eq!(
        pairs(text),
        owned(&[
            ("PLAIN", "value"),
            ("SPACED", "some words"),
            ("EXPORTED", "yes"),
            ("DOUBLE", "a # b \"c\" \n d"),
            ("SINGLE", "a # b \\n"),
            ("EMPTY", ""),
            ("HASH", "a#b"),
            ("URL", "https://host/?a=b&c=d"),
            ("MULTI", "first\nsecond"),
            ("AFTER", "1"),
        ])
    );
}

#[test]
fn lines_without_a_variable_are_skipped() {
    assert_eq!(pairs("just words\n=x\n1A=x\nA B=x\nexport\nOK=1"), owned(&[("OK", "1")]));
    assert_eq!(pairs("\u{feff}BOM=1\r\nCR=2\r\n"), owned(&[("BOM", "1"), ("CR", "2")]));
}

#[test]
fn a_quote_that_is_never_closed_ends_with_its_line() {
    assert_eq!(pairs("A=\"open\nB=2\n"), owned(&[("A", "\"open"), ("B", "2")]));
}

#[test]
fn exported_is_a_name_too() {
    assert_eq!(pairs("exported=1\nexport=2\n"), owned(&[("exported", "1"), ("export", "2")]));
}
