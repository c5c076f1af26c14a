//! The syntax of git's config files, as git reads it (`git help config`, section "Syntax"). Where git stops with an
//! error, this parser continues with the next line: an extra setting does no harm here.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The section and the key in lower case, such as `core.hookspath`; without the subsection.
    pub(super) name: String,
    pub(super) subsection: Option<Vec<u8>>,
    pub(super) value: Vec<u8>,
}

pub(super) fn settings(text: &[u8]) -> Vec<Setting> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    let (mut section, mut subsection, mut found) = (Vec::new(), None, Vec::new());
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => (section, subsection) = header(&mut reader),
            start if start.is_ascii_alphabetic() => {
                let mut key = vec![start];
                while let Some(byte) = reader.next_if(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                    key.push(byte);
                }
                while reader.next_if(|byte| byte == b' ' || byte == b'\t').is_some() {}
                let value = if reader.next_if(|byte| byte == b'=').is_some() {
                    value(&mut reader)
                } else {
                    reader.skip_line();
                    Vec::new()
                };
                let name = [section.as_slice(), &key].join(&b'.').to_ascii_lowercase();
                let name = String::from_utf8_lossy(&name).into_owned();
                found.push(Setting { name, subsection: subsection.clone(), value });
            }
            byte if is_space(byte) => {}
            _ => reader.skip_line(),
        }
    }
    found
}

pub(super) fn is_space(byte: u8) -> bool {
    [b' ', b'\t', b'\n', b'\r'].contains(&byte)
}

/// Reads bytes, and `\r\n` as `\n`.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<(u8, usize)> {
        match (*self.text.get(self.at)?, self.text.get(self.at + 1)) {
            (b'\r', Some(b'\n')) => Some((b'\n', 2)),
            (byte, _) => Some((byte, 1)),
        }
    }

    fn next_if(&mut self, is_wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (byte, length) = self.peek().filter(|(byte, _)| is_wanted(*byte))?;
        self.at += length;
        Some(byte)
    }

    fn next(&mut self) -> Option<u8> {
        self.next_if(|_| true)
    }

    fn skip_line(&mut self) {
        while self.next_if(|byte| byte != b'\n').is_some() {}
    }
}

/// Reads a section header after its `[`: `[section]`, `[section "sub\"section"]` or, as older versions of git wrote
/// it, `[section.subsection]`.
fn header(reader: &mut Reader<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut name = Vec::new();
    while let Some(byte) = reader.next_if(|byte| !is_space(byte) && ![b'"', b']'].contains(&byte)) {
        name.push(byte.to_ascii_lowercase());
    }
    let dot = name.iter().position(|byte| *byte == b'.');
    let (section, mut subsection) = match dot.map(|dot| name.split_at(dot)) {
        Some((section, subsection)) => (section.to_vec(), subsection.get(1..).map(<[u8]>::to_vec)),
        None => (name, None),
    };
    while reader.next_if(|byte| is_space(byte) && byte != b'\n').is_some() {}
    if reader.next_if(|byte| byte == b'"').is_some() {
        let mut quoted = Vec::new();
        while let Some(byte) = reader.next_if(|byte| byte != b'"' && byte != b'\n') {
            quoted.extend(if byte == b'\\' { reader.next_if(|byte| byte != b'\n') } else { Some(byte) });
        }
        reader.next_if(|byte| byte == b'"');
        subsection = Some(match subsection {
            Some(start) => [start, quoted].join(&b'.'),
            None => quoted,
        });
    }
    reader.next_if(|byte| byte == b']');
    (section, subsection)
}

/// Reads the value after a `=`, without the whitespace around it and without a comment. Quotes keep whitespace and
/// the characters of comments; a backslash at the end of a line continues the value. Git ignores what follows a NUL.
fn value(reader: &mut Reader<'_>) -> Vec<u8> {
    let (mut value, mut spaces, mut is_quoted, mut has_begun) = (Vec::new(), Vec::new(), false, false);
    while let Some(byte) = reader.next_if(|byte| byte != b'\n') {
        if is_space(byte) && !is_quoted {
            spaces.push(byte);
            continue;
        }
        if [b'#', b';'].contains(&byte) && !is_quoted {
            reader.skip_line();
            break;
        }
        if has_begun {
            value.append(&mut spaces);
        }
        spaces.clear();
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => match reader.next() {
                Some(b'\n') | None => {}
                Some(b'n') => value.push(b'\n'),
                Some(b't') => value.push(b'\t'),
                Some(b'b') => value.push(8),
                Some(other) => value.push(other),
            },
            other => value.push(other),
        }
        has_begun = !value.is_empty();
    }
    value.into_iter().take_while(|byte| *byte != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::settings;

    fn read(text: &[u8]) -> Vec<String> {
        let text_of = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let shown = |setting: super::Setting| {
            let subsection =
                setting.subsection.map(|name| format!("|{}", text_of(&name))).unwrap_or_default();
            format!("{}{subsection}={}", setting.name, text_of(&setting.value))
        };
        settings(text).into_iter().map(shown).collect()
    }

    #[test]
    fn the_syntax_that_git_documents_is_read_as_git_reads_it() {
        for (text, expected) in [
            ("[core]\n\thooksPath = tools/hooks\n", &["core.hookspath=tools/hooks"] as &[&str]),
            ("[core] hooksPath = a ; b\n", &["core.hookspath=a"]),
            ("[Core]HOOKSPATH=a#b\nbare\n", &["core.hookspath=a", "core.bare="]),
            ("# [core]\n; x = y\n[core] # x = y\n a = b", &["core.a=b"]),
            ("[core]\na = \"b ; c # d  \" # e\n", &["core.a=b ; c # d  "]),
            ("[core]\na =   b  \" c \"d   \n", &["core.a=b   c d"]),
            ("[core]\na = b\\\n  c\\\nd\n", &["core.a=b  cd"]),
            ("[core]\na = \"b\\\nc\"\n", &["core.a=bc"]),
            ("[core]\na = b ; c\\\nd = e\n", &["core.a=b", "core.d=e"]),
            ("[core]\na = \\\"b\\\" \\\\ \\t\\n\n", &["core.a=\\\"b\\\" \\\\ \\t\\n"]),
            ("[core]\r\na = b\r\nc = d\r\n", &["core.a=b", "core.c=d"]),
            ("\u{feff}[core]\na = b\n", &["core.a=b"]),
            ("[filter \"My.Filter\"]\nclean = x\n", &["filter.clean|My.Filter=x"]),
            ("[filter \"a\\\"b\\\\c]\"] clean = x\n", &["filter.clean|a\\\"b\\\\c]=x"]),
            ("[filter\r \r\t\"x\"]\nclean = x\n", &["filter.clean|x=x"]),
            ("[Filter.Old] clean = x\n", &["filter.clean|old=x"]),
            ("[includeIf \"gitdir:~/x/\"]\n\tpath = ../y\n", &["includeif.path|gitdir:~/x/=../y"]),
            ("[a]\nb = c\n[d]\n[a]\nb = e\n", &["a.b=c", "a.b=e"]),
            ("[core]\n=x\n1 = 2\na = b\n", &["core.a=b"]),
            ("[core\na = b\n[core", &["core.a=b"]),
            ("[core]\na = \"b\nc = d\n", &["core.a=b", "core.c=d"]),
            // Quotes keep whitespace at the ends of a value, and only some characters are whitespace for git.
            ("[core]\na = \"hooks \"\nb = \" c\"\n", &["core.a=hooks ", "core.b= c"]),
            ("[core]\na = \u{a0}b\u{b}\n", &["core.a=\\xc2\\xa0b\\x0b"]),
            ("[core]\na = b\rc\n", &["core.a=b\\rc"]),
            ("[core]\na = b\0c\nd = e\n", &["core.a=b", "core.d=e"]),
            ("", &[]),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(read(b"[core]\na = h\xe4ken\n"), ["core.a=h\\xe4ken"]);
    }

    /// What git reads from a file; `None` if git rejects the file.
    fn read_by_git(file: &std::path::Path) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut git = std::process::Command::new("git");
        let output =
            git.args(["config", "--list", "-z", "--no-includes", "--file"]).arg(file).output().unwrap();
        let parts = output.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
            (part[..end].to_vec(), part.get(end + 1..).unwrap_or_default().to_vec())
        });
        output.status.success().then(|| pairs.collect())
    }

    #[test]
    fn every_setting_that_git_reads_from_any_text_is_read_alike() {
        const SPACES: [&str; 7] = [" ", "", "\t", "\r", " \r\t", "\r\n", "\\\n"];
        const HEADERS: [&str; 9] = [
            "[filter",
            "[Core]",
            "[includeIf",
            "[a.B]",
            "[alias",
            "[a.b",
            "\u{feff}[core]",
            "[credential",
            "",
        ];
        const REST: [&str; 9] =
            ["\"x\"]", "\"a.B\"]", "\"a\\\"b\"]", "]", "\"x]\"]", "\"#\"]", "\"\"]", "\"x\" ]", "\"\\\\\"]"];
        const KEYS: [&str; 6] = ["clean", "Path", "fsmonitor", "key-1", "#x", "[b]y"];
        const EQUALS: [&str; 3] = ["=", "", "= ="];
        const VALUES: [&str; 16] = [
            "./evil",
            "\"a b\"",
            "a#b",
            "\"a;b\";c",
            "\\t",
            "\\\\",
            "\\\"",
            "\\\n",
            "\\\r\n",
            "\r",
            "\0",
            "\u{b}",
            "  ",
            "x",
            "\"",
            "\\b\\n",
        ];
        const ENDS: [&str; 4] = ["\n", "\r\n", "", "\r"];
        let mut random = fastrand::Rng::with_seed(7);
        // Mostly the first, because git rejects a file with an error anywhere.
        let mut pick =
            |from: &[&'static str]| from[if random.f32() < 0.8 { 0 } else { random.usize(..from.len()) }];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        let mut accepted = 0;
        for n in 0..1000 {
            let mut text = String::new();
            for _ in 0..=(n % 3) {
                for pieces in [&HEADERS[..], &SPACES, &REST, &SPACES, &KEYS, &SPACES, &EQUALS, &SPACES] {
                    text.push_str(pick(pieces));
                }
                for pieces in [&VALUES[..], &SPACES, &VALUES, &VALUES, &SPACES, &ENDS] {
                    text.push_str(pick(pieces));
                }
            }
            std::fs::write(&file, &text).unwrap();
            let Some(by_git) = read_by_git(&file) else { continue };
            let ours: Vec<(Vec<u8>, Vec<u8>)> = settings(text.as_bytes())
                .into_iter()
                .map(|setting| {
                    let (section, key) = setting.name.rsplit_once('.').unwrap();
                    let middle =
                        setting.subsection.map(|name| [name, b".".to_vec()].concat()).unwrap_or_default();
                    let name = [format!("{section}.").as_bytes(), &middle, key.as_bytes()].concat();
                    // A setting before the first section has no section.
                    (name.strip_prefix(b".").map(<[u8]>::to_vec).unwrap_or(name), setting.value)
                })
                .collect();
            accepted += usize::from(!by_git.is_empty());
            for setting in by_git {
                assert!(ours.contains(&setting), "{text:?}: git reads {setting:?}, not {ours:?}");
            }
        }
        assert!(accepted > 100, "git accepted only {accepted} texts with settings");
    }
}
