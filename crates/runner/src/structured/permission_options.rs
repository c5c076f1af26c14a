//! The options of a CLI agent's question about a permission. Options with the same meaning have the same id and the
//! same place for every CLI agent: the narrowest permission comes first.

use althing_protocol::AskOption;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OptionKind {
    Allow,
    /// Allows this action and others like it.
    AllowAlways,
    Reject,
    Other,
}

impl OptionKind {
    fn id(self) -> Option<&'static str> {
        match self {
            Self::Allow => Some("allow"),
            Self::AllowAlways => Some("allow_always"),
            Self::Reject => Some("reject"),
            Self::Other => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Offered<T> {
    pub(super) kind: OptionKind,
    pub(super) native_id: String,
    pub(super) label: String,
    pub(super) answer: T,
}

/// The options for a person, with the answers to the agent. If some option has a known meaning but none rejects,
/// `rejection` is added. An option of unknown meaning, and the second one of two with the same meaning, keeps the
/// agent's own id.
pub(super) fn permission_options<T>(
    mut offered: Vec<Offered<T>>,
    rejection: Offered<T>,
) -> Vec<(AskOption, T)> {
    let is_known = offered.iter().any(|option| option.kind != OptionKind::Other);
    if is_known && !offered.iter().any(|option| option.kind == OptionKind::Reject) {
        offered.push(rejection);
    }
    offered.sort_by_key(|option| option.kind);
    let mut options: Vec<(AskOption, T)> = Vec::new();
    for Offered { kind, native_id, label, answer } in offered {
        let is_taken = |id: &str| options.iter().any(|(known, _)| known.id == id);
        let id = kind.id().filter(|id| !is_taken(id)).map_or(native_id, str::to_owned);
        if !is_taken(&id) {
            options.push((AskOption { id, label }, answer));
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::{Offered, OptionKind, permission_options};

    fn offered(kind: OptionKind, native: &str) -> Offered<String> {
        let text = native.to_owned();
        Offered { kind, native_id: text.clone(), label: text.to_uppercase(), answer: text }
    }

    fn ids(options: &[OptionKind]) -> Vec<(String, String)> {
        let names = ["one", "two", "three", "four"];
        let all = options.iter().zip(names).map(|(kind, name)| offered(*kind, name)).collect();
        let options = permission_options(all, offered(OptionKind::Reject, "no"));
        options.into_iter().map(|(option, answer)| (option.id, answer)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(id, answer)| ((*id).to_owned(), (*answer).to_owned())).collect()
    }

    #[test]
    fn the_narrowest_permission_comes_first_and_rejecting_is_always_possible() {
        use OptionKind::{Allow, AllowAlways, Other, Reject};
        let all = ids(&[AllowAlways, Allow, Reject]);
        assert_eq!(all, pairs(&[("allow", "two"), ("allow_always", "one"), ("reject", "three")]));
        assert_eq!(ids(&[Allow]), pairs(&[("allow", "one"), ("reject", "no")]));
        assert_eq!(ids(&[Other, Other]), pairs(&[("one", "one"), ("two", "two")]));
        let more = ids(&[Other, Allow, Reject, Reject]);
        assert_eq!(more, pairs(&[("allow", "two"), ("reject", "three"), ("four", "four"), ("one", "one")]));
    }
}
