//! Finds the section where a misplaced key belongs.

use crate::keys::{Kind, Section};

/// Returns the dotted path of a section, which is empty for the top level.
pub(crate) fn section_of_key(root: &'static Section, name: &str) -> Option<String> {
    search(root, name, &mut Vec::new())
}

fn search(section: &'static Section, name: &str, open: &mut Vec<&'static str>) -> Option<String> {
    if open.contains(&section.name) {
        return None;
    }
    if section.key(name).is_some() {
        return Some(String::new());
    }
    open.push(section.name);
    let found = section.keys.iter().find_map(|key| {
        let (inner, is_list) = inner_section(key.kind)?;
        let rest = search(inner, name, open)?;
        let dot = if rest.is_empty() { "" } else { "." };
        let item = if is_list { "[]" } else { "" };
        Some(format!("{}{item}{dot}{rest}", key.name))
    });
    open.pop();
    found
}

fn inner_section(kind: Kind) -> Option<(&'static Section, bool)> {
    match kind {
        Kind::Section(section) => Some((section, false)),
        Kind::List(Kind::Section(section)) => Some((section, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::inner_section;
    use crate::keys::{Kind, ROOT, Section, Status, WORKFLOW};
    use althing_text::misspelled;

    fn sections(section: &'static Section, found: &mut Vec<&'static Section>) {
        if found.iter().any(|known| std::ptr::eq(*known, section)) {
            return;
        }
        found.push(section);
        section.keys.iter().for_each(|key| below(key.kind, found));
    }

    fn below(kind: Kind, found: &mut Vec<&'static Section>) {
        match kind {
            Kind::Section(section) => sections(section, found),
            Kind::List(inner) | Kind::Map(inner) => below(*inner, found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| below(*kind, found)),
            _ => assert!(inner_section(kind).is_none()),
        }
    }

    fn typos(key: &str) -> Vec<String> {
        let letters: Vec<char> = key.chars().collect();
        let mut typos = Vec::new();
        for at in 0..letters.len() {
            let changed = |change: &dyn Fn(&mut Vec<char>)| {
                let mut letters = letters.clone();
                change(&mut letters);
                letters.into_iter().collect::<String>()
            };
            typos.push(changed(&|letters| {
                letters.remove(at);
            }));
            typos.push(changed(&|letters| letters.insert(at, letters[at])));
            typos.push(changed(&|letters| letters[at] = 'q'));
            if at + 1 < letters.len() {
                typos.push(changed(&|letters| letters.swap(at, at + 1)));
            }
        }
        typos
    }

    #[test]
    fn a_typo_in_any_key_of_a_config_or_a_workflow_is_recognized() {
        let mut all = Vec::new();
        sections(&ROOT, &mut all);
        sections(&WORKFLOW, &mut all);
        assert!(all.len() > 20, "{}", all.len());
        let mut tried = 0;
        for section in all {
            let names = || {
                let read = |status| !matches!(status, Status::Replaced(_));
                section.keys.iter().filter(move |key| read(key.status)).map(|key| key.name)
            };
            for key in names().filter(|key| key.len() > 2) {
                for typo in typos(key).into_iter().filter(|typo| section.key(typo).is_none()) {
                    assert!(misspelled(&typo, names()).is_some(), "`{typo}` for `{key}` in {}", section.name);
                    tried += 1;
                }
            }
        }
        assert!(tried > 5_000, "{tried}");
    }

    #[test]
    fn two_edits_of_a_short_word_are_not_a_typo() {
        assert_eq!(misspelled("note", ["mode"]), None);
        assert_eq!(misspelled("modle", ["model"]), Some("model"));
        assert_eq!(misspelled("mdole", ["model"]), Some("model"));
        assert_eq!(misspelled("sotre", ["model"]), None);
    }
}
